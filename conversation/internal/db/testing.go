package db

// What tests need beside the face of DB.

// StopChores keeps chores from being done before Close, except with StepChore. The
// chores named are stuck, as by damage: Close does not do them either. It is for tests
// that do the chores themselves, or that leave them to the next start.
func (d *DB) StopChores(stuck ...string) {
	d.writer.take()
	defer d.writer.give()
	d.writer.timer.Stop()
	d.writer.resting = false
	for _, name := range stuck {
		d.writer.chores.stuck[name] = true
	}
}

// RunChores does chores as the background does. more says that some are left, which
// the background would go on with.
func (d *DB) RunChores() (more bool) {
	d.writer.take()
	defer d.writer.give()
	return d.writer.doChores() != 0
}
