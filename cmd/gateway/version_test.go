package main

import (
	"runtime/debug"
	"testing"
)

func TestRecordedVersion(t *testing.T) {
	t.Parallel()
	commit := []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef0123"}, {Key: "vcs.modified", Value: "true"}}
	for name, c := range map[string]struct {
		info *debug.BuildInfo
		want string
	}{
		"nothing recorded": {nil, ""},
		"installed":        {&debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: commit}, "v1.2.3"},
		"built in a clone": {&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: commit}, "0123456789ab-dirty"},
		"built without it": {&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, ""},
	} {
		if got := recordedVersion(c.info); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
