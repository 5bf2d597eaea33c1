// Package faulttest shows, with the real binary, that no message is lost and
// none is answered twice, whatever happens to the process, the disk, the
// platform or the model. Its tests build the gateway, run it against in-repo
// servers of Telegram, of Discord and of the model's API that survive it, kill
// it where it hurts, and then read the database and what the chats got.
//
// FAULT_KILLS sets how often each test that kills at random moments does so, and
// FAULT_SEED repeats the moments of an earlier run. make torture sets 500; without
// it they are so few that the tests of a commit stay short.
package faulttest
