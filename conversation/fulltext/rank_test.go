package fulltext

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestRank(t *testing.T) {
	day := func(n int) time.Time { return time.UnixMilli(0).AddDate(0, 0, n) }
	for _, c := range []struct {
		what, query string
		documents   []Document
		want        []int64
	}{
		{"short before long", "port", []Document{
			{ID: 1, Text: "the port is " + strings.Repeat("blah ", 300)}, {ID: 2, Text: "the port is 80"}}, []int64{2, 1}},
		{"all terms before one that is repeated", "staging password", []Document{
			{ID: 1, Text: "staging staging staging"}, {ID: 2, Text: "the staging password"}}, []int64{2, 1}},
		{"new before old", "port", []Document{
			{ID: 1, Text: "which port?", At: day(300)}, {ID: 2, Text: "which port?", At: day(1)}}, []int64{1, 2}},
		{"the higher ID of equals", "port", []Document{
			{ID: 1, Text: "which port?"}, {ID: 3, Text: "which port?"}, {ID: 2, Text: "which port?"}}, []int64{3, 2, 1}},
		{"what stands behind the beginning counts", "port open", []Document{
			{ID: 1, Text: "open"}, {ID: 2, Text: "open", Has: []int{0, 1}}}, []int64{2, 1}},
		{"nothing", "port", nil, nil},
	} {
		Rank(c.documents, ParseQuery(c.query))
		var got []int64
		for _, d := range c.documents {
			got = append(got, d.ID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
}
