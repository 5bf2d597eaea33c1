//go:build unix

package mcp

import "syscall"

// terminateGroup asks all processes of a group to end. One that is gone is no failure.
func terminateGroup(id int) { _ = syscall.Kill(-id, syscall.SIGTERM) }

// killGroup ends all processes of a group. One that is gone is no failure.
func killGroup(id int) { _ = syscall.Kill(-id, syscall.SIGKILL) }
