package cli

import "parley/plaintext"

// This file is the chat's side of the keys: what Ctrl-C means, and the lock
// that keeps output away while the editor ends a line and owns the cursor.

// waitUnlocked waits until the chat may print. The caller holds mu.
func (c *chat) waitUnlocked() {
	for c.locked && !c.closed {
		c.free.Wait()
	}
}

// unlock removes the echo of the ended line, prints above, and lets others print
// again. The caller holds mu.
func (c *chat) unlock(echo int, above, draft string) {
	c.locked = false
	c.inputRows = inputRows(promptWidth, []rune(draft), c.screen.width)
	if echo >= c.screen.height {
		// The line has scrolled out of reach: it stays as it was typed, and
		// so does the region above it.
		c.screen.forget()
		echo, above = 0, "\n"
	}
	_ = c.repaint(echo, above)
	c.free.Broadcast()
}

// leaving is called before a key that may end the line.
func (c *chat) leaving() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.locked = true
}

// edited is called after a key that did not end the line.
func (c *chat) edited(line []rune, hint []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	stale := c.locked || len(hint)+len(c.hint) > 0
	c.locked, c.armed = false, false
	width, height := c.screen.width, c.screen.height
	c.screen.look()
	rows := inputRows(promptWidth, line, c.screen.width)
	if stale || rows != c.inputRows || width != c.screen.width || height != c.screen.height {
		c.inputRows, c.hint = rows, hint
		_ = c.repaint(0, "")
	}
	c.free.Broadcast()
}

// suspend is called before the shell gets the terminal.
func (c *chat) suspend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.screen.paint(0, "", nil)
}

// interrupt handles Ctrl-C: it stops the answer that is being written. Without
// one it gives up the line, and when pressed again it leaves.
func (c *chat) interrupt() (giveUp bool) {
	c.mu.Lock()
	switch {
	case c.armed || c.stopping():
		c.leave, giveUp = true, true
	case !c.busy():
		c.armed, giveUp = true, true
		c.hint = []string{"press Ctrl-C again to leave"}
	}
	c.mu.Unlock()
	if !giveUp {
		c.stop()
	}
	return giveUp
}

// stop asks for the end of the run by a /stop, as any channel does.
func (c *chat) stop() {
	id, err := newID()
	if err == nil {
		c.mu.Lock()
		c.pending = append(c.pending, sent{id: id, stop: true})
		_ = c.repaint(0, "")
		c.mu.Unlock()
		err = c.post(c.ctx, id, stopText)
	}
	if err == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(id)
	c.hint = []string{"could not be stopped: " + plaintext.ForTerminal(err.Error())}
	_ = c.repaint(0, "")
}
