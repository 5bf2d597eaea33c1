package db

// Methods of DB that only tests use.

// StopChores keeps chores from being done before Close, except with StepChore. The
// chores named are stuck, as by damage: Close does not do them either. It is for tests
// that do the chores themselves, or that leave them to the next start.
func (d *DB) StopChores(stuck ...string) {
	d.chores.group.take()
	defer d.chores.group.give()
	d.chores.stopped = true
	for _, name := range stuck {
		d.chores.list.stuck[name] = true
	}
}

// RunChores does chores as the background does. more says that some are left, which
// the background would go on with.
func (d *DB) RunChores() (more bool) {
	d.chores.group.take()
	defer d.chores.group.give()
	return d.chores.runSteps() != 0
}
