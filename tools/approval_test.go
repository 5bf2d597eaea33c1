package tools

import (
	"slices"
	"testing"

	"parley/conversation/approvals"
)

func TestMustAskUsesTheMostSpecificSetting(t *testing.T) {
	t.Parallel()
	reads, adds, deletes := Tool{Name: "s_read", ReadOnly: true}, Tool{Name: "s_add", Additive: true}, Tool{Name: "s_delete"}
	for _, tt := range []struct {
		approve string
		asks    []string
	}{
		{ApproveNever, nil},
		{ApproveDestructive, []string{"s_delete"}},
		{ApproveChanges, []string{"s_add", "s_delete"}},
		{ApproveAsk, []string{"s_read", "s_add", "s_delete"}},
	} {
		for _, tool := range []Tool{reads, adds, deletes} {
			want := slices.Contains(tt.asks, tool.Name)
			if got := (Config{Approve: tt.approve}).MustAsk(tool); got != want {
				t.Errorf("approve = %q: %s is asked about: %t", tt.approve, tool.Name, got)
			}
			other := tool
			other.Approve = tt.approve
			if got := (Config{Approve: ApproveNever}).MustAsk(other); got != want {
				t.Errorf("a tool with approve = %q: %s is asked about: %t", tt.approve, tool.Name, got)
			}
		}
	}
	reads.Approve = ApproveNever
	if !(Config{Ask: []string{"s_*"}}).MustAsk(reads) {
		t.Error("a name in ask is not asked about")
	}
}

func TestMayAnswer(t *testing.T) {
	t.Parallel()
	ann, bob := approvals.Person{Channel: "telegram", ID: "42"}, approvals.Person{Channel: "telegram", ID: "43"}
	for _, tt := range []struct {
		approvers []string
		who       approvals.Person
		operator  bool
		may       bool
	}{
		{[]string{"asker"}, ann, false, true},
		{[]string{"asker"}, bob, false, false},
		{[]string{"asker"}, approvals.Person{Channel: "discord", ID: "42"}, false, false},
		{[]string{"operator"}, bob, true, true},
		{[]string{"operator"}, ann, false, false},
		{[]string{"anyone"}, bob, false, true},
		{[]string{"telegram:43"}, bob, false, true},
		{[]string{"telegram:43"}, ann, true, false},
		{nil, ann, true, false},
	} {
		if got := (Config{Approvers: tt.approvers}).MayAnswer(tt.who, tt.operator, []approvals.Person{ann}); got != tt.may {
			t.Errorf("%q: %+v may: %t", tt.approvers, tt.who, got)
		}
	}
}
