package db

// Methods of DB that only tests use.

// StopChores stops chores until Close, except those of StepChore. The chores named in stuck
// are marked as stuck, as after damage, so that Close does not run them either. It is for tests
// that run chores themselves, or that leave them to the next start.
func (d *DB) StopChores(stuck ...string) {
	d.chores.group.take()
	defer d.chores.group.give()
	d.chores.stopped = true
	for _, name := range stuck {
		d.chores.list.stuck[name] = true
	}
}

// RunChores runs chores once as the background does. more reports that the background would call it
// again.
func (d *DB) RunChores() (more bool) {
	d.chores.group.take()
	defer d.chores.group.give()
	return d.chores.runSteps() != 0
}
