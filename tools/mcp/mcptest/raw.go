package mcptest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// raw is a server that writes its messages itself, so that it can break the protocol in ways in
// which a library does not.
type raw struct {
	kind, folder string
	out          *bufio.Writer
}

// rawTools are the tools of a raw server, with what each does before it answers.
var rawTools = map[string]func(r *raw, id json.RawMessage){
	"look": func(*raw, json.RawMessage) {},
	"stderr": func(*raw, json.RawMessage) {
		repeat(64, func() { io.WriteString(os.Stderr, strings.Repeat("x\n", 1<<19)) })
	},
	"unknown": func(r *raw, _ json.RawMessage) { r.answer(json.RawMessage(`987654`), text("not asked for")) },
	"twice":   func(r *raw, id json.RawMessage) { r.answer(id, text("the first answer")) },
	"version": func(r *raw, id json.RawMessage) {
		fmt.Fprintf(r.out, `{"jsonrpc":"1.0","id":%s,"result":%s}`+"\n", id, text("of another version"))
	},
	"notify": func(r *raw, _ json.RawMessage) {
		repeat(5_000, func() {
			r.out.WriteString(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"` + strings.Repeat("noise ", 50) + `"}}` + "\n")
			r.out.WriteString(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n")
		})
	},
	"elicit": func(r *raw, _ json.RawMessage) { // it reads no answer meanwhile
		n := 0
		repeat(100_000, func() {
			n++
			fmt.Fprintf(r.out, `{"jsonrpc":"2.0","id":"q%d","method":"elicitation/create","params":{"message":"%s","requestedSchema":{"type":"object","properties":{}}}}`+"\n", n, strings.Repeat("Well? ", 50))
		})
	},
	"deep": func(r *raw, id json.RawMessage) { r.answer(id, Deep()) },
	"long": func(r *raw, id json.RawMessage) { // its ID comes last, as some libraries write it
		fmt.Fprintf(r.out, `{"result":%s,"jsonrpc":"2.0","id":%s}`+"\n", Long(), id)
	},
	"nested": func(r *raw, id json.RawMessage) { // half as deep as readers of JSON take: the copies of all levels are still more than the 32 MiB that the test allows
		fmt.Fprintf(r.out, `{"jsonrpc":"2.0","id":%s,"result":{"content":[],"structuredContent":%s}}`+"\n", id, strings.Repeat(`{"a":`, 5_000)+"1"+strings.Repeat("}", 5_000))
	},
	"fork": func(r *raw, _ json.RawMessage) { // a child that has left the group holds standard output
		child := exec.Command("sleep", "20")
		child.Stdout, child.Stderr, child.SysProcAttr = os.Stdout, os.Stderr, &syscall.SysProcAttr{Setsid: true}
		if err := child.Start(); err != nil {
			panic(err)
		}
		os.Exit(0)
	},
}

func repeat(n int, do func()) {
	for range n {
		do()
	}
}

// serveRaw serves requests until standard input ends.
func serveRaw(kind, folder string) {
	r := &raw{kind, folder, bufio.NewWriter(os.Stdout)}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ Name, Cursor string }
		}
		if err := json.Unmarshal(in.Bytes(), &m); err == nil && m.ID != nil && m.Method != "" {
			r.serve(m.ID, m.Method, m.Params.Name, m.Params.Cursor)
			r.out.Flush()
		}
	}
}

func (r *raw) serve(id json.RawMessage, method, name, cursor string) {
	switch method {
	case "initialize":
		r.answer(id, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"raw","version":"1"}}`)
	case "ping":
		r.answer(id, `{}`)
	case "tools/list":
		note(r.folder, "lists", "list")
		r.answer(id, r.page(cursor))
	case "tools/call":
		rawTools[name](r, id)
		r.answer(id, text("did "+name))
	default:
		fmt.Fprintf(r.out, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`+"\n", id)
	}
}

func (r *raw) answer(id json.RawMessage, result string) {
	fmt.Fprintf(r.out, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", id, result)
}

// text returns the result of a call.
func text(s string) string { return fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, s) }

// page returns a page of the list of tools. That of the kind "circle" comes again and again, that
// of "pages" has always a next one without tools, and that of "many" has 10,000 tools in all.
func (r *raw) page(cursor string) string {
	tool := func(name string) string {
		quoted, _ := json.Marshal(name)
		return fmt.Sprintf(`{"name":%s,"inputSchema":{"type":"object"}}`, quoted)
	}
	var list []string
	next := ""
	switch r.kind {
	case "circle":
		list, next = []string{tool("look")}, "again"
	case "pages":
		next = fmt.Sprint("page ", time.Now().UnixNano())
	case "many":
		page := 0
		fmt.Sscan(cursor, &page)
		for n := range 500 {
			list = append(list, tool(fmt.Sprintf("tool-%05d", page*500+n)))
		}
		if page < 19 {
			next = fmt.Sprint(page + 1)
		}
	default:
		for name := range rawTools {
			list = append(list, tool(name))
		}
		list = append(list, tool("evil\u202e\x1b[2J\r\nname"), tool("evil\u202e\x1b[2J\r\nname"))
	}
	return fmt.Sprintf(`{"tools":[%s],"nextCursor":%q}`, strings.Join(list, ","), next)
}

// Long returns the result of a call that is longer than the gateway reads, as are 200,000 levels for Deep.
func Long() string { return text(strings.Repeat("long ", 4<<20)) }

// Deep returns the result of a call that nests deeper than readers of JSON take.
func Deep() string {
	return `{"content":[],"structuredContent":` + strings.Repeat(`{"a":`, 200_000) + "1" + strings.Repeat("}", 200_000) + `}`
}
