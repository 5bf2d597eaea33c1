package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"parley/conversation"
	"parley/conversation/bots"
	"parley/conversation/dbhealth"
	"parley/conversation/maintenance"
	"parley/internal/lifesign"
	"parley/llm"
	"parley/plaintext"
)

// CheckHealth asks every gateway on the database at path for its health, prints the
// answers, and returns an error for each reason why one does not serve.
func CheckHealth(ctx context.Context, out io.Writer, path string) error {
	pid, err := maintenance.DaemonPID(path)
	if err != nil {
		return err
	}
	answers, err := lifesign.Ask(ctx, path, pid)
	if err != nil {
		return err
	}
	if pid == 0 && len(answers) == 0 {
		return fmt.Errorf("no gateway serves %s; `gateway run` starts one", path)
	}
	if pid != 0 && !slices.ContainsFunc(answers, func(a lifesign.Answer) bool { return a.PID == pid || a.PID == 0 }) {
		answers = append(answers, lifesign.Answer{PID: pid, Err: errors.New("it does not listen")})
	}
	for i := range answers {
		answers[i].PID = cmp.Or(answers[i].PID, pid)
	}
	return checkAnswers(out, path, answers)
}

// CheckAllHealth is CheckHealth for every gateway of this user on this machine, or in
// this container, whatever its database is.
func CheckAllHealth(ctx context.Context, out io.Writer) error {
	answers, err := lifesign.AskAll(ctx)
	if err != nil {
		return err
	}
	if len(answers) == 0 {
		return errors.New("no gateway of this user runs here; `gateway run` starts one")
	}
	return checkAnswers(out, "a database", answers)
}

// checkAnswers prints the answers. path is what is said of a gateway that names no
// database, since it does not answer.
func checkAnswers(out io.Writer, path string, answers []lifesign.Answer) error {
	var problems []error
	for _, a := range answers {
		problems = append(problems, checkAnswer(out, path, a))
	}
	return errors.Join(problems...)
}

func checkAnswer(out io.Writer, path string, a lifesign.Answer) error {
	var is healthReport
	err := a.Err
	if err == nil {
		err = json.Unmarshal(a.Body, &is)
	}
	if err != nil {
		return fmt.Errorf("process %d serves %s, but gives no sign of life (%w): %s", a.PID, path, err, silenceReason(a.PID))
	}
	_, err = fmt.Fprintf(out, "process %d serves %s\n%s", a.PID, plaintext.ForTerminal(cmp.Or(is.Database, path)), plaintext.ForTerminal(is.describe()))
	return errors.Join(append(is.problems(), err)...)
}

// silenceReason returns what may be wrong with a process that does not answer.
func silenceReason(pid int) string {
	if isStopped(pid) {
		return fmt.Sprintf("it is stopped, as by SIGSTOP; `kill -CONT %d` lets it go on", pid)
	}
	return "it hangs, or the machine is overloaded; its log may tell, and starting it anew loses nothing"
}

// isStopped reports whether a process is stopped, according to Linux: proc_pid_stat(5).
func isStopped(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, behindName, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " ")
	return strings.HasPrefix(behindName, "T") || strings.HasPrefix(behindName, "t")
}

// healthReport is what a gateway answers to `gateway health`.
type healthReport struct {
	Database string `json:"database"` // path of the database, or its URL without the password
	Ready    bool   `json:"ready"`
	parts
}

// answerHealth answers `gateway health` until stop is called.
func (g *Gateway) answerHealth() (stop func()) {
	server, err := lifesign.Serve(g.store.Path(), func(ctx context.Context) []byte {
		ready, is := g.ready(ctx)
		body, err := json.Marshal(healthReport{Database: g.store.Path(), Ready: ready, parts: is.(parts)})
		if err != nil {
			panic(err) // texts, numbers and times always have JSON
		}
		return body
	})
	if err != nil {
		g.log.Warn("`gateway health` will report that this gateway hangs", "error", err)
		return func() {}
	}
	return func() { _ = server.Close() }
}

// describe returns a line for each channel and for replies that wait in it.
func (f healthReport) describe() string {
	var b strings.Builder
	if f.Draining {
		b.WriteString("it drains: the other gateways take its sessions over\n")
	}
	for _, name := range slices.Sorted(maps.Keys(f.Channels)) {
		c := f.Channels[name]
		fmt.Fprintf(&b, "%s: %s since %s", c.title(name), c.State, c.Since.Format(time.DateTime))
		if c.Detail != "" && !needsOperator(c.State) { // such a state is listed as a problem
			fmt.Fprintf(&b, " (%s)", c.Detail)
		}
		b.WriteByte('\n')
	}
	for _, q := range f.Queues {
		if q.OutboxDue > 0 {
			fmt.Fprintf(&b, "%s: %s to be sent, the oldest for %s", channelState{Account: q.Account}.title(q.Channel), plural(q.OutboxDue, "reply", "replies"), seconds(q.OutboxOldest))
			if q.OutboxHeld > 0 {
				fmt.Fprintf(&b, "; %d of them set aside, the oldest for %s", q.OutboxHeld, seconds(q.HeldOldest))
			}
			b.WriteByte('\n')
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Models)) {
		if m := f.Models[name]; m.State != llm.StateUp && m.Since != nil {
			fmt.Fprintf(&b, "model %s: %s since %s: %s\n", name, m.State, m.Since.Format(time.DateTime), m.Error)
		}
	}
	for _, h := range f.Held {
		fmt.Fprintf(&b, "%s: a reply is set aside since %s, after %s: %s\n", h.Session, h.Since.Format(time.DateTime), plural(int64(h.Attempts), "try", "tries"), h.Error)
	}
	return b.String()
}

// problems returns the reasons why the gateway does not serve.
func (f healthReport) problems() (list []error) {
	if !f.Store.Writable {
		list = append(list, fmt.Errorf("the database can't be written: %s", f.Store.Error))
	}
	if len(f.Store.Damaged) > 0 {
		list = append(list, fmt.Errorf("the database is damaged (%s): %s", strings.Join(f.Store.Damaged, "; "), dbhealth.Advice))
	}
	for _, name := range slices.Sorted(maps.Keys(f.Channels)) {
		if c := f.Channels[name]; needsOperator(c.State) {
			list = append(list, fmt.Errorf("%s is %s since %s: %s", c.title(name), c.State, c.Since.Format(time.DateTime), c.Detail))
		}
	}
	for _, sentence := range f.Degraded {
		list = append(list, errors.New(sentence))
	}
	if f.Starting {
		list = append(list, errors.New("the gateway is starting: it takes no messages over HTTP yet"))
	}
	if f.Ending {
		list = append(list, errors.New("the gateway is ending: it takes no more messages, and finishes the answers under way"))
	}
	if !f.Ready && !f.Draining && len(list) == len(f.Degraded) {
		list = append(list, errors.New("the gateway is not ready"))
	}
	return list
}

// title returns a channel's name with the bot that serves it.
func (c channelState) title(channel string) string {
	if c.Account == "" {
		return channel
	}
	return channel + " (bot " + c.Account + ")"
}

func seconds(n float64) time.Duration { return time.Duration(n) * time.Second }

func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// health returns a function that stores the state of a channel. It logs an error of
// the store, and holds up nothing for it.
func (g *Gateway) health(of conversation.Account) func(state, detail string) {
	return func(state, detail string) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := bots.New(g.store).SetHealth(ctx, of, state, detail); err != nil {
			g.log.Warn("channel state not stored", "channel", of, "state", state, "error", err)
		}
	}
}
