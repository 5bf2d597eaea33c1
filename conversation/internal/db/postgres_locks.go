package db

import (
	"context"
	"sync"

	"parley/cluster"
)

// roleLocks holds the locks of DB.Lock that this process has in a PostgreSQL database. They are roles of the cluster, so a
// node loses them when it is declared dead. Whoever has one may call take again to get it back when the node has joined anew.
type roleLocks struct {
	node *cluster.Node

	mu   sync.Mutex // held while a lock is taken or released
	held map[string]*roleLock
}

type roleLock struct {
	role  *cluster.Role
	times int // how often it was taken and not released
}

func (s *postgresServer) lock(ctx context.Context, name string) (release func(), err error) {
	return s.locks.take(ctx, name)
}

func (l *roleLocks) take(ctx context.Context, name string) (release func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lock := l.held[name]
	lost := lock != nil && l.node.Valid() && !lock.role.IsHeld() // this node has joined anew
	if lost {
		lock.role.Release(ctx)
	}
	if lock == nil || lost {
		role, err := l.node.Take(ctx, name)
		if err != nil {
			return nil, Explain(err)
		}
		if role == nil {
			return nil, &HeldError{}
		}
		if lock == nil {
			lock = &roleLock{}
			l.held[name] = lock
		}
		lock.role = role
	}
	lock.times++
	return sync.OnceFunc(func() { l.release(lock) }), nil
}

// release releases the role of a lock when the lock was released as often as it was taken.
func (l *roleLocks) release(lock *roleLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lock.times--; lock.times > 0 {
		return
	}
	delete(l.held, lock.role.Name)
	lock.role.Release(context.Background())
}
