package faulttest

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"parley/gateway/gatewaytest"
	"parley/llm/llmtest"
)

// number returns the node's number in the cluster, which `gateway nodes` lists with its address.
func (n *node) number(t *testing.T) string {
	t.Helper()
	list := n.MustRun("nodes")
	for line := range strings.Lines(list) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[2] == "http://"+n.listen {
			return fields[0]
		}
	}
	t.Fatalf("http://%s is not among\n%s", n.listen, list)
	return ""
}

// ready asks a node for its readiness.
func (n *node) ready() (status int, body string) {
	answer, err := http.Get("http://" + n.listen + "/readyz")
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, string(text)
}

// A node is drained, stopped and started anew while programs send messages to all nodes. No request fails, and each message
// is answered once. While the node drains, it accepts requests and works no session.
func TestClusterStopsADrainedGatewayWithoutAFailedRequest(t *testing.T) {
	t.Parallel()
	const drained, stopped, startedAnew = 3, 6, 8
	model := llmtest.New(t)
	model.Reply(answerTo)
	nodes, url := newNodes(t, 3, model)
	for _, n := range nodes {
		n.start()
	}
	for _, n := range nodes {
		gatewaytest.Await(t, "a node to be ready", func() bool { status, _ := n.ready(); return status == http.StatusOK })
	}
	talks := conversations{sessions: 4, each: 12}
	talks.hold(t, nodes, func(message int) {
		switch message {
		case drained:
			if said := nodes[0].MustRun("drain", nodes[1].number(t)); !strings.Contains(said, "has handed everything over") {
				t.Errorf("gateway drain: %s", said)
			}
			status, body := nodes[1].ready()
			if status != http.StatusServiceUnavailable || !strings.Contains(body, `"draining":true`) || !strings.Contains(body, `"state":"draining"`) {
				t.Errorf("while it drains, /readyz answers %d %s", status, body)
			}
			gatewaytest.Await(t, "another node to be ready, and to name the one that drains", func() bool { // on a busy machine it may be late for a moment
				status, body := nodes[0].ready()
				return status == http.StatusOK && strings.Contains(body, `"state":"draining"`)
			})
		case stopped:
			nodes[1].process.Stop()
		case startedAnew:
			nodes[1].start()
			gatewaytest.Await(t, "the node to be ready", func() bool { status, _ := nodes[1].ready(); return status == http.StatusOK })
		}
	})
	talks.expectAnsweredOnce(t, url)
	number := nodes[2].number(t)
	nodes[0].MustRun("drain", number)
	if said := nodes[0].MustRun("drain", number, "--undo"); !strings.Contains(said, "takes on sessions again") {
		t.Errorf("gateway drain --undo: %s", said)
	}
	gatewaytest.Await(t, "the node to be ready", func() bool { status, _ := nodes[2].ready(); return status == http.StatusOK })
	for _, n := range nodes {
		n.process.Stop()
	}
}
