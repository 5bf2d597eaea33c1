// Package mcptest is an MCP server for tests, which can be made to misbehave. The test binary is
// also the server's program: TestMain calls Main, and Command returns how to start it.
package mcptest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// serve is the first argument of the server's program.
const serve = "serve-mcp-for-tests"

// Command returns the program and the arguments of a server of some kind. One of any other
// kind than these does what it should:
//
//	"strict"    writes nothing but messages, as the protocol wants it
//	"mute"      answers nothing
//	"late"      takes a while to start
//	"stubborn"  goes on when its input is closed and when it gets SIGTERM, as does a child of it
//	"runaway"   as stubborn, in the process group of the gateway
//	"2025"      speaks the protocol of 2025, in which a server asks people during a call
//	"hostile"   has names, descriptions, parameters and results that try to be something else
//	"raw"       breaks the protocol in its tools, see rawTools
//	"circle", "pages", "many"  have lists of tools that never end, or that are long
//
// It records what it does in files of folder: its process ID and those of its children in
// "pids", each with the time of its start, and a line for each effect of a tool, with the tool, the id of its arguments and its
// key, in "effects".
func Command(kind, folder string) (command string, args []string, err error) {
	command, err = os.Executable()
	return command, []string{serve, kind, folder}, err
}

// Section returns the section of a configuration for a server of some kind, with further keys, and behind them perhaps
// further sections.
func Section(name, kind, folder, keys string) (string, error) {
	command, args, err := Command(kind, folder)
	if err != nil {
		return "", err
	}
	list, err := json.Marshal(args) // reads the same in TOML
	return fmt.Sprintf("[mcp.%s]\ncommand = %q\nargs = %s\n%s\n", name, command, list, keys), err
}

// Main runs the server, if the program was started by Command, and never returns then.
func Main() {
	if len(os.Args) != 4 || os.Args[1] != serve {
		return
	}
	kind, folder := os.Args[2], os.Args[3]
	notePID(folder, os.Getpid())
	switch kind {
	case "mute":
		select {}
	case "late":
		time.Sleep(300 * time.Millisecond)
	case "runaway":
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
		group, err := syscall.Getpgid(os.Getppid())
		if err == nil {
			err = syscall.Setpgid(0, group)
		}
		if err != nil {
			panic(err)
		}
	case "stubborn":
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
		for _, leaves := range []bool{false, true} { // the group of the server
			child := exec.Command("sleep", "1000")
			child.SysProcAttr = &syscall.SysProcAttr{Setsid: leaves}
			if err := child.Start(); err != nil {
				panic(err)
			}
			notePID(folder, child.Process.Pid)
		}
	}
	switch kind {
	case "raw", "circle", "pages", "many":
		serveRaw(kind, folder)
		os.Exit(0)
	}
	if kind != "strict" {
		fmt.Println("Welcome! This line is no message.")
	}
	server := New(folder)
	switch kind {
	case "hostile":
		addHostileTools(server)
	case "2025":
		server.AddReceivingMiddleware(withoutDiscovery)
	}
	err := server.Run(context.Background(), &mcp.StdioTransport{})
	if kind == "stubborn" || kind == "runaway" {
		select {}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(0)
}

// withoutDiscovery refuses the request by which the protocol of 2026 begins.
func withoutDiscovery(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		if method == "server/discover" {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found"}
		}
		return next(ctx, method, r)
	}
}

// note appends a line to a file of the folder.
func note(folder, name, line string) {
	f, err := os.OpenFile(filepath.Join(folder, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if _, err := f.WriteString(line + "\n"); err != nil {
		panic(err)
	}
}

// Lines returns the lines of a file that a server has written. One that it is writing is left out.
func Lines(folder, name string) (list []string) {
	text, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		return nil // not yet
	}
	for line := range strings.Lines(string(text)) {
		if whole, ended := strings.CutSuffix(line, "\n"); ended {
			list = append(list, whole)
		}
	}
	return list
}

// notePID notes a process of the server, with the time of its start, since a later process may get the same ID.
func notePID(folder string, pid int) {
	_, start := stateOf(fmt.Sprint(pid))
	note(folder, "pids", fmt.Sprint(pid, " ", start))
}

// Alive returns the processes of servers that still run, among those noted in folder.
func Alive(folder string) (pids []string) {
	for _, noted := range Lines(folder, "pids") {
		pid, began, _ := strings.Cut(noted, " ")
		if state, start := stateOf(pid); start != "" && start == began && state != "Z" { // a zombie has ended
			pids = append(pids, pid)
		}
	}
	return pids
}

// stateOf returns the state of a process and the time of its start, from proc_pid_stat(5). Both are "" if there is none.
func stateOf(pid string) (state, start string) {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return "", ""
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // behind the program's name
	fields := strings.Fields(rest)
	return fields[0], fields[19]
}

// Hold is the name of a file in the folder. While it exists, tools wait after their effect.
const Hold = "hold"

// tool is what a tool of the server does.
type tool func(ctx context.Context, r *mcp.CallToolRequest) (string, error)

// addTool adds a tool that answers with a text.
func addTool(server *mcp.Server, name string, hints *mcp.ToolAnnotations, call tool) {
	addRaw(server, name, hints, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		text, err := call(ctx, r)
		if err != nil {
			text = err.Error()
		}
		return &mcp.CallToolResult{IsError: err != nil, Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
	})
}

func addRaw(server *mcp.Server, name string, hints *mcp.ToolAnnotations, call mcp.ToolHandler) {
	server.AddTool(&mcp.Tool{Name: name, Description: "For tests.", Annotations: hints, InputSchema: json.RawMessage(`{"type":"object"}`)}, call)
}

// New returns a server whose tools write into folder.
func New(folder string) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "tester", Version: "1"}, nil)
	readOnly := &mcp.ToolAnnotations{ReadOnlyHint: true}
	addTool(server, "pay", nil, effect(folder, "pay"))
	addTool(server, "look", readOnly, effect(folder, "look"))
	addTool(server, "order", nil, effect(folder, "order"))
	addTool(server, "ask", nil, func(ctx context.Context, r *mcp.CallToolRequest) (string, error) { return ask(ctx, folder, r) })
	addTool(server, "surroundings", readOnly, surroundings)
	addTool(server, "grow", nil, func(context.Context, *mcp.CallToolRequest) (string, error) {
		pay := effect(folder, "pay more")
		server.AddTool(&mcp.Tool{Name: "pay", Description: "For more tests.", InputSchema: json.RawMessage(`{"type":"object","properties":{"to":{"type":"string"}}}`)},
			func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				text, err := pay(ctx, r)
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, err
			})
		addTool(server, "new tool!", nil, effect(folder, "new"))
		return "grown", nil
	})
	addTool(server, "shrink", nil, func(context.Context, *mcp.CallToolRequest) (string, error) {
		addTool(server, "pay", nil, effect(folder, "pay"))
		return "shrunk", nil
	})
	addRaw(server, "choose", nil, choose(folder))
	addRaw(server, "draw", nil, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "a drawing"}, &mcp.ImageContent{Data: Picture(), MIMEType: "image/png"}}}, nil
	})
	addBadTools(server, folder)
	return server
}

// effect returns a tool that records its effect, and then waits as long as its arguments say.
func effect(folder, name string) tool {
	return func(ctx context.Context, r *mcp.CallToolRequest) (string, error) {
		var arguments struct {
			ID   string        `json:"id"` // ID of the effect
			Time time.Duration `json:"ms"` // how long the effect takes, in milliseconds
		}
		if err := json.Unmarshal(r.Params.Arguments, &arguments); err != nil {
			return "", err
		}
		key, _ := r.Params.Meta["idempotencyKey"].(string)
		note(folder, "effects", strings.Join(strings.Fields(name+" "+arguments.ID+" "+key), " "))
		time.Sleep(arguments.Time * time.Millisecond)
		for {
			if _, err := os.Stat(filepath.Join(folder, Hold)); err != nil {
				return "did " + name, nil
			}
			select {
			case <-ctx.Done():
				return "", ctx.Err()
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
}

// addBadTools adds tools that fail, each in its way.
func addBadTools(server *mcp.Server, folder string) {
	for name, call := range map[string]func() (string, error){
		"fail":  func() (string, error) { return "", fmt.Errorf("the shop is closed") },
		"flood": func() (string, error) { return strings.Repeat("water ", 50<<20/6), nil },
		"long":  func() (string, error) { return strings.Repeat("word ", 100<<10), nil },
		"hang": func() (string, error) {
			syscall.Kill(os.Getpid(), syscall.SIGSTOP) // it answers nothing any more, no ping either
			select {}
		},
		"garbage": func() (string, error) {
			fmt.Print("\x00\xff no message at all\n[1, 2\n{\"jsonrpc\":\"1.0\",\"id\":{}}\n")
			return "after garbage", nil
		},
		"crash": func() (string, error) {
			note(folder, "effects", "crash")
			fmt.Fprintln(os.Stderr, strings.TrimSpace("out of cheese "+os.Getenv("SHOP_TOKEN")))
			os.Exit(3)
			return "", nil
		},
	} {
		addTool(server, name, nil, func(context.Context, *mcp.CallToolRequest) (string, error) { return call() })
	}
}

// surroundings returns the environment of the server, and the files that it has open.
func surroundings(context.Context, *mcp.CallToolRequest) (string, error) {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return "", err
	}
	said := os.Environ()
	for _, fd := range open {
		if path, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(path, "/") {
			said = append(said, "open: "+path)
		}
	}
	return strings.Join(said, "\n"), nil
}

// Form is the schema of what the tools ask and choose ask.
const Form = `{"type":"object","properties":{
	"colour":{"type":"string","title":"Colour","enum":["red","blue"],"enumNames":["Crimson","Navy"]},
	"size":{"type":"integer","minimum":1,"maximum":9},
	"name":{"type":"string","maxLength":20},
	"gift":{"type":"boolean"}},"required":["colour","size"]}`

// ask has an effect, asks the user in the middle of the call, and has another effect. Its
// argument says with which form: "form" (default), "confirm", "url" or "nested".
func ask(ctx context.Context, folder string, r *mcp.CallToolRequest) (string, error) {
	var arguments struct{ ID, Kind string }
	if err := json.Unmarshal(r.Params.Arguments, &arguments); err != nil {
		return "", err
	}
	note(folder, "effects", strings.TrimSpace("ask "+arguments.ID))
	asked := &mcp.ElicitParams{Message: "Which `one`?", RequestedSchema: json.RawMessage(Form)}
	switch arguments.Kind {
	case "confirm":
		asked.RequestedSchema = json.RawMessage(`{"type":"object","properties":{}}`)
	case "url":
		asked = &mcp.ElicitParams{Mode: "url", Message: "Sign in first.", URL: "https://shop.example/sign-in?x=1", ElicitationID: "e1"}
	case "nested":
		asked.RequestedSchema = json.RawMessage(`{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"string"}}}}}`)
	}
	answer, err := r.Session.Elicit(ctx, asked)
	note(folder, "effects", strings.TrimSpace("asked "+arguments.ID))
	if err != nil {
		return "", err
	}
	content, err := json.Marshal(answer.Content)
	return fmt.Sprintf("%s %s", answer.Action, content), err
}

// choose needs the answer to a question before it has its effect, and is called again with it.
func choose(folder string) mcp.ToolHandler {
	return func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		answer, given := r.Params.InputResponses["q"].(*mcp.ElicitResult)
		if !given {
			return &mcp.CallToolResult{RequestState: "choosing", InputRequests: mcp.InputRequestMap{"q": &mcp.ElicitParams{
				Mode: "form", Message: "Which colour?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"colour":{"type":"string","enum":["red","blue"]}},"required":["colour"]}`)}}}, nil
		}
		note(folder, "effects", "choose")
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("%s %s %v", r.Params.RequestState, answer.Action, answer.Content["colour"])}}}, nil
	}
}
