package toolstate

import "testing"

func TestShellCommandsAddToTheState(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		`git commit -m "Fix the mill"`:            "Fix the mill",
		`cd x && git commit -am 'Begin' && ls`:    "Begin",
		`git commit --amend --no-edit`:            "",
		`echo git; ls -m "x"`:                     "",
		`git status; echo commit -m "not a word"`: "",
	} {
		if got := commitOf(command); got != want {
			t.Errorf("%s: %q", command, got)
		}
	}
	for text, want := range map[string]int{
		"FAIL\nexit status 1": 1, `{"exit_code": 127, "out": ""}`: 127, "Process exited with code 2": 2, "exit code: 3": 3,
		"all is well": 0, "exit status 1 was expected\nexit status 0": 0,
	} {
		if got := exitStatus(text); got != want {
			t.Errorf("%q: %d", text, got)
		}
	}
}
