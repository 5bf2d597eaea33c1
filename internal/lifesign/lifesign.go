// Package lifesign lets a process ask, on the same machine, the daemons of a
// database how they fare. A process that is stopped or hangs does not answer.
package lifesign

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// maxDaemons is how many daemons of one database can be asked.
	maxDaemons = 8

	// answerTime is how long a connection may last, which is how long a client waits.
	answerTime = 10 * time.Second

	dialTime  = time.Second // which takes no time where anybody listens
	maxAnswer = 1 << 20     // bytes
)

// database is what the daemons of one have in common: the folder that it lies in,
// by device and inode, and its name there. The file itself may be replaced while
// they run. Of a database on a server it is the URL.
type database struct {
	id    uint64 // hash of the folder's device and inode and the file's name, or of the URL
	owner uint32 // user id
}

// identify takes a path without symbolic links, or a URL.
func identify(path string) (database, error) {
	h := fnv.New64a()
	if strings.Contains(path, "://") {
		fmt.Fprint(h, path)
		return database{id: h.Sum64(), owner: uint32(os.Geteuid())}, nil
	}
	folder, err := stat(filepath.Dir(path))
	if err != nil {
		return database{}, err
	}
	owner := folder.Uid
	if file, err := stat(path); err == nil {
		owner = file.Uid
	}
	fmt.Fprint(h, folder.Dev, folder.Ino, filepath.Base(path))
	return database{id: h.Sum64(), owner: owner}, nil
}

func stat(path string) (*syscall.Stat_t, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, fmt.Errorf("%s: this system does not tell which file it is", path)
	}
	return s, nil
}

// Server answers for one daemon.
type Server struct {
	listener net.Listener
	owner    uint32
	answer   func(context.Context) []byte
	working  sync.WaitGroup
	ctx      context.Context
	cancel   context.CancelFunc
}

// Serve answers clients that ask for the daemons of the database at path, which has no
// symbolic links, until Close. The answer is made anew for each, and by many
// goroutines at once.
func Serve(path string, answer func(context.Context) []byte) (*Server, error) {
	of, err := identify(path)
	if err != nil {
		return nil, err
	}
	for slot := range maxDaemons {
		var l net.Listener
		if l, err = listen(of, slot); err == nil {
			s := &Server{listener: l, owner: of.owner, answer: answer}
			s.ctx, s.cancel = context.WithCancel(context.Background())
			s.working.Go(s.run)
			return s, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return nil, fmt.Errorf("listen for signs of life: %w", err)
}

// Close ends the server and waits for the answers under way.
func (s *Server) Close() error {
	s.cancel()
	err := s.listener.Close()
	s.working.Wait()
	return err
}

func (s *Server) run() {
	for {
		conn, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // too many open files
			select {
			case <-time.After(100 * time.Millisecond):
			case <-s.ctx.Done():
			}
			continue
		}
		s.working.Go(func() { s.tell(conn) })
	}
}

// tell answers one connection, if it is of the daemon's user or of root.
func (s *Server) tell(conn net.Conn) {
	defer conn.Close()
	stop := context.AfterFunc(s.ctx, func() { conn.Close() })
	defer stop()
	if _, uid, err := peer(conn, s.owner); err != nil || uid != s.owner && uid != 0 && uid != uint32(os.Geteuid()) {
		return
	}
	if err := conn.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, answerTime)
	defer cancel()
	_, _ = conn.Write(s.answer(ctx)) // who is gone needs none
}

var (
	errSilent = errors.New("no answer in time")
	errHungUp = errors.New("it hung up without an answer")
)

// Answer is the answer of one daemon.
type Answer struct {
	PID  int // 0 where the system does not tell
	Body []byte
	Err  error // it lives, but does not answer
}

// Ask asks every daemon of the database at path, which has no symbolic links, and
// waits for their answers until ctx ends. None is no error. Those of the database's
// owner, of root and of the asking user are believed, and the process holder, which
// is known to hold the database's lock; 0 = none is known.
func Ask(ctx context.Context, path string, holder int) ([]Answer, error) {
	of, err := identify(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var addresses []string
	for slot := range maxDaemons {
		addresses = append(addresses, address(of, slot))
	}
	return askEach(ctx, addresses, of.owner, holder), nil
}

// AskAll asks every daemon of this user on this machine, or in this container, whatever
// its database is, and waits for their answers until ctx ends. None is no error.
func AskAll(ctx context.Context) ([]Answer, error) {
	addresses, err := addresses()
	if err != nil {
		return nil, err
	}
	return askEach(ctx, addresses, uint32(os.Geteuid()), 0), nil
}

// askEach asks the daemons that listen at the addresses, all at once.
func askEach(ctx context.Context, addresses []string, owner uint32, holder int) []Answer {
	answers := make([]*Answer, len(addresses))
	var asking sync.WaitGroup
	for i, address := range addresses {
		asking.Go(func() { answers[i] = ask(ctx, address, owner, holder) })
	}
	asking.Wait()
	var list []Answer
	for _, a := range answers {
		if a != nil {
			list = append(list, *a)
		}
	}
	return list
}

// ask returns nil when no daemon listens at the address. What another user than the
// owner listens with there is none.
func ask(ctx context.Context, address string, owner uint32, holder int) *Answer {
	conn, err := net.DialTimeout("unix", address, dialTime)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT):
		return nil
	case err != nil: // its queue is full: nobody has taken a connection for long
		return &Answer{Err: err}
	}
	defer conn.Close()
	pid, uid, err := peer(conn, owner)
	if err != nil || uid != owner && uid != 0 && uid != uint32(os.Geteuid()) && (pid == 0 || pid != holder) {
		return nil
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	body, err := io.ReadAll(io.LimitReader(conn, maxAnswer))
	switch {
	case ctx.Err() != nil:
		err = errSilent
	case err == nil && len(body) == 0:
		err = errHungUp
	}
	return &Answer{PID: pid, Body: body, Err: err}
}
