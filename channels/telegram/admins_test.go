package telegram_test

import (
	"testing"
	"testing/synctest"
	"time"

	"parley/channels/access"
	"parley/channels/telegram/telegramtest"
)

func TestIsAdminAsksTelegramOnceAMinute(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.channel()
	g.srv.SetAdmins(group, ada)
	isAdmin := func(address, user string) bool {
		t.Helper()
		is, err := c.IsAdmin(deadline(t), address, user)
		must(t, err)
		return is
	}
	const place = `{"chat":-1001,"topic":7,"reply_to":5}`
	if !isAdmin(place, "42") || isAdmin(place, "43") || isAdmin(place, "") {
		t.Error("ada alone is an admin")
	}
	if !isAdmin(place, "-1001") || isAdmin(place, "-1002") {
		t.Error("a message in the group's own name must count as one of an admin, and one in another group's name must not")
	}
	if isAdmin(`{"chat":42}`, "42") {
		t.Error("a private chat has an admin")
	}
	if n := g.srv.Calls("getChatAdministrators"); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

func TestIsAdminFailsWhileTelegramFails(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.channel()
	g.srv.SetAdmins(group, ada)
	for _, v := range []telegramtest.Verdict{telegramtest.BadGateway(), telegramtest.TooMany(3), telegramtest.Drop(), {Code: 403, Description: "bot was kicked"}} {
		g.srv.Fail("getChatAdministrators", v, 1)
		if is, err := c.IsAdmin(deadline(t), `{"chat":-1001}`, "42"); err == nil || is {
			t.Errorf("%+v: %v, %v", v, is, err)
		}
	}
	if is, err := c.IsAdmin(deadline(t), `{"chat":-1001}`, "42"); err != nil || !is {
		t.Errorf("afterwards: %v, %v", is, err)
	}
	if _, err := c.IsAdmin(deadline(t), "nonsense", "42"); err == nil {
		t.Error("an address of another channel passes")
	}
}

func TestIsAdminFollowsAGroupThatMoved(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.srv.Migrate(-55, -1001)
	g.srv.SetAdmins(group, ada)
	if is, err := g.channel().IsAdmin(deadline(t), `{"chat":-55}`, "42"); err != nil || !is {
		t.Errorf("%v, %v", is, err)
	}
}

func TestAdminsAreRequestedAgainAfterAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var memory access.AdminMemory[int64]
		memory.Remember(1, []string{"42"})
		time.Sleep(time.Minute - 1)
		if admins, ok := memory.Recall(1); !ok || len(admins) != 1 {
			t.Errorf("after a moment: %q, %v", admins, ok)
		}
		time.Sleep(time.Nanosecond)
		if admins, ok := memory.Recall(1); ok {
			t.Errorf("after a minute: %q", admins)
		}
	})
}
