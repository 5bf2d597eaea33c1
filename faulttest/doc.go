// Package faulttest shows, with the real binary, that no message is lost and
// none is answered twice, whatever happens to the process, the disk, the
// platform or the model. Its tests build the gateway, run it against this
// repository's servers of Telegram, Discord and the model's API, kill it at
// critical points, and then check the database and the replies in the chats.
//
// FAULT_KILLS sets how often each test with random kills kills the gateway,
// FAULT_POWER how often the power fails, and FAULT_POINTS=all has the gateway
// killed at every write and request of a job instead of a few. FAULT_SEED repeats
// the moments of an earlier run. `make torture` sets 500 kills and 1,000 power
// failures; the defaults are small, so that `make test` stays short.
package faulttest
