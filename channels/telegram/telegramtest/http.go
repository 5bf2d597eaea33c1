package telegramtest

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// maxRequest bounds a request, in bytes: files may have 50 MB
// (https://core.telegram.org/bots/api#senddocument).
const maxRequest = 51 << 20

// serve answers /bot<token>/<method>, in any letter case of the method.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	nameProgram(r)
	if strings.HasPrefix(r.URL.Path, "/file/bot") {
		s.serveFile(w, r)
		return
	}
	rest, ok := strings.CutPrefix(r.URL.Path, "/bot")
	token, name, found := strings.Cut(rest, "/")
	switch {
	case !ok || !found || !strings.Contains(token, ":"):
		refuse(w, Verdict{Code: 404})
		return
	}
	if s = s.byToken(token); s == nil {
		refuse(w, Verdict{Code: 401})
		return
	}
	params, err := readParams(r)
	if err != nil {
		refuse(w, Verdict{Code: 400, Description: err.Error()})
		return
	}
	if v := s.record(name, params); !v.passes() {
		refuse(w, v)
		return
	}
	s.method(w, r, name, params)
}

func (s *Server) method(w http.ResponseWriter, r *http.Request, name string, p map[string]string) {
	switch strings.ToLower(name) {
	case "getme":
		answer(w, s.Bot)
	case "getupdates":
		s.getUpdates(w, r, p)
	case "sendmessage":
		s.sendMessage(w, p)
	case "senddocument":
		s.sendDocument(w, r, p, "document")
	case "sendphoto":
		s.sendDocument(w, r, p, "photo")
	case "sendrichmessage":
		s.sendRichMessage(w, p)
	case "sendmediagroup":
		s.sendMediaGroup(w, r, p)
	case "sendmessagedraft":
		s.sendMessageDraft(w, p)
	case "sendchataction":
		s.sendChatAction(w, p)
	case "editephemeralmessagetext":
		s.editEphemeralMessageText(w, p)
	case "deletemycommands":
		s.mu.Lock()
		s.groupCommands = ""
		s.mu.Unlock()
		answer(w, true)
	case "editmessagetext":
		s.editMessageText(w, p)
	case "deletemessage":
		s.deleteMessage(w, p)
	case "answercallbackquery":
		s.answerCallbackQuery(w, p)
	case "getfile":
		s.getFile(w, p)
	case "setmycommands":
		s.setMyCommands(w, p)
	case "setwebhook":
		s.setWebhook(w, p)
	case "deletewebhook":
		s.SetWebhook("")
		answer(w, true)
	case "getchatadministrators":
		s.getChatAdministrators(w, p)
	case "getwebhookinfo":
		answer(w, s.webhookInfo())
	default:
		refuse(w, Verdict{Code: 404, Description: "method not found"})
	}
}

// record counts the call and takes the verdict that a test set for it.
func (s *Server) record(method string, params map[string]string) Verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[method]++
	if method != "getUpdates" && method != "sendMessage" && method != "sendDocument" && method != "sendPhoto" {
		s.log = append(s.log, Call{method, params})
	}
	s.changed.Broadcast()
	next := s.failures[method]
	if len(next) == 0 {
		return Verdict{}
	}
	s.failures[method] = next[1:]
	return next[0]
}

// readParams reads the parameters from the query and from a urlencoded,
// multipart or JSON body. JSON values that are no strings keep their JSON.
func readParams(r *http.Request) (map[string]string, error) {
	params := map[string]string{}
	add := func(values url.Values) {
		for name := range values {
			params[name] = values.Get(name)
		}
	}
	add(r.URL.Query())
	if r.Method != http.MethodPost {
		return params, nil
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch kind {
	case "multipart/form-data":
		if err := r.ParseMultipartForm(maxRequest); err != nil {
			return nil, fmt.Errorf("can't parse the form: %w", err)
		}
		add(r.MultipartForm.Value)
		return params, nil
	case "application/json":
		var fields map[string]json.RawMessage
		if err := json.NewDecoder(io.LimitReader(r.Body, maxRequest)).Decode(&fields); err != nil {
			return nil, fmt.Errorf("can't parse JSON: %w", err)
		}
		for name, raw := range fields {
			var text string
			if json.Unmarshal(raw, &text) != nil {
				text = string(raw)
			}
			params[name] = text
		}
		return params, nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))
	if err != nil {
		return nil, err
	}
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, err
	}
	add(values)
	return params, nil
}

// integer reads a parameter; what is no number counts as the default.
func integer(p map[string]string, name string, byDefault int64) int64 {
	n, err := strconv.ParseInt(p[name], 10, 64)
	if err != nil {
		return byDefault
	}
	return n
}

func answer(w http.ResponseWriter, result any) {
	raw, err := json.Marshal(result)
	if err != nil {
		refuse(w, Verdict{Code: 500})
		return
	}
	answerRaw(w, raw)
}

func answerRaw(w http.ResponseWriter, raw []byte) {
	body := make([]byte, 0, len(raw)+24)
	body = append(append(append(body, `{"ok":true,"result":`...), raw...), '}')
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body)
}

// refuse answers an error as the real server words it.
func refuse(w http.ResponseWriter, v Verdict) {
	if v.Drop {
		panic(http.ErrAbortHandler)
	}
	if v.Body != "" {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(v.Code)
		io.WriteString(w, v.Body)
		return
	}
	body := map[string]any{"ok": false, "error_code": v.Code, "description": v.words()}
	parameters := map[string]any{}
	if v.RetryAfter > 0 {
		parameters["retry_after"] = v.RetryAfter
	}
	if v.MigrateTo != 0 {
		parameters["migrate_to_chat_id"] = v.MigrateTo
	}
	if len(parameters) > 0 {
		body["parameters"] = parameters
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(v.Code)
	json.NewEncoder(w).Encode(body)
}

func (v Verdict) words() string {
	kind := map[int]string{
		400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found",
		409: "Conflict", 429: "Too Many Requests", 500: "Internal Server Error", 502: "Bad Gateway",
	}[v.Code]
	switch {
	case v.RetryAfter > 0 && v.Description == "":
		return fmt.Sprintf("%s: retry after %d", kind, v.RetryAfter)
	case v.Description == "":
		return kind
	}
	return kind + ": " + v.Description
}
