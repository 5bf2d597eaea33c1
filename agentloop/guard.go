package agentloop

import (
	"fmt"
	"runtime/debug"
)

// guard is do, with a panic as an error: one chat's text must not end the
// gateway, now and at every start.
func guard(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return do()
}
