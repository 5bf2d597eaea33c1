//go:build unix && !linux

package mcp

import "syscall"

// ownGroup has a program run in a process group of its own.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// killMarked does nothing: the environment of processes can't be read here.
func killMarked(string) {}
