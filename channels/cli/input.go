package cli

import "parley/plaintext"

// This file is the chat's side of the keys: what Ctrl-C means, and the lock
// that keeps output away while the editor ends a line.

// waitUnlocked waits until the chat may print. The caller holds mu.
func (c *chat) waitUnlocked() {
	for c.locked && !c.closed {
		c.free.Wait()
	}
}

// unlock prints above in place of the ended line, shows the draft that is edited next, and
// lets others print again. The caller holds mu.
func (c *chat) unlock(above, draft string) {
	c.locked = false
	c.setLine(draft)
	_ = c.repaint(above)
	c.free.Broadcast()
}

// setLine sets the line being edited, with the cursor at its end. The caller holds mu.
func (c *chat) setLine(text string) {
	c.line = []rune(text)
	c.cursor = len(c.line)
}

// leaving is called before a key that may end the line.
func (c *chat) leaving() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.locked = true
}

// edited is called after a key that did not end the line.
func (c *chat) edited(line []rune, pos int, hint []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	stale := c.locked || len(hint)+len(c.hint) > 0
	c.locked, c.armed = false, false
	width, height, rows := c.screen.width, c.screen.height, len(c.input().rows)
	c.line, c.cursor, c.hint = line, pos, hint
	c.screen.look()
	in := c.input()
	if stale || len(in.rows) != rows || width != c.screen.width || height != c.screen.height {
		_ = c.repaint("")
	} else {
		_ = c.screen.paintInput(in)
	}
	c.free.Broadcast()
}

// input returns the line being edited as it is drawn.
func (c *chat) input() input { return c.screen.input(c.prompt, c.line, c.cursor) }

// cleared empties the screen.
func (c *chat) cleared() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.screen.clear()
	_ = c.repaint("")
}

// suspend is called before the shell gets the terminal.
func (c *chat) suspend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.screen.paint("", nil, input{})
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
		_ = c.repaint("")
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
	_ = c.repaint("")
}
