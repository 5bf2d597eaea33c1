package telegram

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A call that Telegram does not answer says so, and not which of our deadlines has passed.
func TestCallWithoutAnswerSaysHowLongItWaited(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer server.Close()
	a := newAPI("7:secret", server.URL)
	err := a.call(t.Context(), time.Millisecond, "getMe", nil, nil)
	if err == nil || err.Error() != "getMe: no answer within 1ms" {
		t.Errorf("the error is %v", err)
	}
	if trouble, _ := troubleOf(err); trouble.Name != "network" || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v is taken for %+v", err, trouble)
	}
}
