package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"parley/config"
	"parley/conversation/maintenance"
)

func backupCommand(configPath *string) *cobra.Command {
	var force bool
	command := &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy the database to a file, also while the gateway runs",
		Long: "FILE becomes one SQLite database with everything that is stored when the command begins, files of messages\n" +
			"included. Only you can read it. It appears when the copy is complete and checked; if anything goes wrong,\n" +
			"there is no FILE. A running gateway goes on answering. `gateway restore` puts the copy in place.",
		Example: "  gateway backup /var/backups/parley-$(date +%F).db",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			database, err := existingDatabase(*configPath)
			if err != nil {
				return err
			}
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			began, bars := time.Now(), &stepBars{out: cmd.ErrOrStderr()}
			c, err := maintenance.Backup(ctx, database, args[0], maintenance.BackupOptions{Force: force, Progress: bars.show})
			bars.finish()
			if err != nil && ctx.Err() != nil {
				return fmt.Errorf("interrupted; %s was not written", args[0])
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is a checked copy of %s: %s, in %s.\n",
				args[0], database, contents(c), time.Since(began).Round(100*time.Millisecond))
			return err
		},
	}
	command.Flags().BoolVar(&force, "force", false, "replace FILE if it exists")
	return command
}

// existingDatabase returns the path of the configured database, which must exist.
func existingDatabase(configPath string) (string, error) {
	path, err := configuredDatabase(configPath)
	if err != nil {
		return "", err
	}
	exists, err := maintenance.Exists(path)
	if err == nil && !exists {
		err = fmt.Errorf("there is no database %s: call this where the gateway was started, or name its configuration with -c FILE", path)
	}
	return path, err
}

// errOnServer is returned by commands that work on the file of a database.
var errOnServer = errors.New("the database is on a PostgreSQL server, which has its own tools: back it up with pg_dump or pg_basebackup, " +
	"restore it with pg_restore, and check it with pg_amcheck")

// configuredDatabase returns the path of the configured database.
func configuredDatabase(configPath string) (string, error) {
	cfg, err := config.Load(configPath, os.Getenv)
	if err != nil {
		return "", err
	}
	if maintenance.OnServer(cfg.Database) {
		return "", errOnServer
	}
	return filepath.Abs(cfg.Database)
}

// contents describes what a database holds.
func contents(c maintenance.Contents) string {
	text := fmt.Sprintf("%s, %s, %s", counted(c.Sessions, "session", "sessions"), counted(c.Conversations, "conversation", "conversations"),
		counted(c.Messages, "message", "messages"))
	if c.Files > 0 {
		text += ", " + counted(c.Files, "file", "files")
	}
	if c.LostFiles > 0 {
		text += fmt.Sprintf(" (%d of them missing or damaged: `gateway verify` names them)", c.LostFiles)
	}
	if c.Bytes > 0 {
		text += ", " + fileSize(c.Bytes)
	}
	return text
}

// stepBars shows the progress of maintenance on a terminal, and nothing elsewhere.
type stepBars struct {
	out  io.Writer
	step maintenance.Step
	bar  *progressbar.ProgressBar
	stop func() // ends what turns the bar of a step whose length is not known
}

func (b *stepBars) show(step maintenance.Step, done, total int64) {
	if step != b.step {
		b.finish()
		b.step, b.bar = step, newProgress(b.out, total, string(step), progressbar.OptionSetPredictTime(total > 0))
		if total == 0 {
			b.stop = turning(b.bar)
		}
	}
	if total > 0 {
		_ = b.bar.Set64(done) // a picture of the work, not the work
	}
}

func (b *stepBars) finish() {
	if b.stop != nil {
		b.stop()
		b.stop = nil
	}
	if b.bar != nil {
		_ = b.bar.Finish()
	}
}

// turning animates a progress bar until stop is called.
func turning(bar *progressbar.ProgressBar) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_ = bar.Add(1)
			case <-end:
				return
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}
