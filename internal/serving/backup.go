package serving

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom/archive"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/metrics"
)

// BackupFlags say where a process that serves a store backs it up.
type BackupFlags struct {
	to       string
	dest     DestinationFlags
	every    time.Duration
	keep     Duration
	local    ByteSize
	takeOver bool
}

// BackupFlagsHelp is what commands with these flags say about them.
const BackupFlagsHelp = `--backup DEST backs up the store all the time: what was committed is in DEST about a second later, and
each state of the last 30 days can be restored; see greenroom restore and docs/backup.md. While DEST can't
be reached no commit fails or waits: the log says so, and /readyz and the metrics of a host; the store keeps
up to --backup-local of its log until then.`

// Flags adds the flags.
func (f *BackupFlags) Flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.local = ByteSize(archive.DefaultLocal)
	flags.StringVar(&f.to, "backup", "", "`DEST` of the backup: a folder, or s3://BUCKET/PREFIX")
	flags.StringVar(&f.dest.key, "backup-key", "", "`file` with the identity of age for which the backup is encrypted")
	flags.StringVar(&f.dest.recipients, "backup-recipients", "", "`file` with recipients of age for which it is encrypted, too")
	flags.DurationVar(&f.every, "backup-every", time.Second, "how long a commit waits for others before it leaves with them")
	f.keep = Duration(archive.DefaultKeep)
	flags.Var(&f.keep, "backup-keep", "for how long states are kept")
	flags.Var(&f.local, "backup-local", "how much of its log the store keeps while DEST can't be reached")
	flags.BoolVar(&f.takeOver, "backup-take-over", false, "go on although another store has its backups there")
}

// A running backup is that of a store that is served.
type runningBackup struct {
	writer *archive.Writer // nil for none
}

// Begin begins the backup, if there is to be one. The caller ends it, before it closes the store.
func (f *BackupFlags) Begin(st *storeurl.Store, url string, log *slog.Logger, sink metrics.Sink) (*runningBackup, error) {
	if f.to == "" {
		return &runningBackup{}, nil
	}
	if f.every <= 0 || f.keep == 0 {
		return nil, Usage("--backup-every and --backup-keep take a time that is longer than 0")
	}
	if _, dir, err := storeurl.Parse(url); err == nil {
		if err := Apart(f.to, dir); err != nil {
			return nil, err
		}
	}
	b, err := f.dest.Open(f.to)
	if err != nil {
		return nil, err
	}
	w, err := archive.Start(st.Engine(), b, &archive.Options{
		Every: f.every, Keep: time.Duration(f.keep), MaxLocal: int64(f.local), TakeOver: f.takeOver, Store: storeurl.Display(url), Logger: log, Metrics: sink,
	})
	if errors.Is(err, errors.ErrUnsupported) {
		err = Usage("--backup is for a store in a directory: PostgreSQL has its own tools, see docs/postgres.md")
	}
	if err != nil {
		return nil, err
	}
	return &runningBackup{w}, nil
}

// End stores what is left, for as long as ctx allows it, and ends the backup.
func (r *runningBackup) End(ctx context.Context, log *slog.Logger) {
	if r.writer == nil {
		return
	}
	err := r.writer.Sync(ctx)
	if cerr := r.writer.Close(); err == nil {
		err = cerr
	}
	if err != nil { // it leaves with the next process
		log.Warn("greenroom: not all of the store is in the backup yet", slog.Any("error", err))
	}
}

// degraded says what is wrong with the backup, "" for nothing.
func (r *runningBackup) degraded() string {
	if r.writer == nil {
		return ""
	}
	switch s := r.writer.Status(); {
	case s.Fatal != nil:
		return "the backup has ended"
	case s.Err != nil:
		return "the backup can't reach its destination"
	}
	return ""
}

// watch adds what the backup does to the metrics.
func (r *runningBackup) watch(registry *prometheus.Registry) error {
	if r.writer == nil {
		return nil
	}
	var err error
	for _, g := range []struct {
		name, help string
		of         func(archive.Status) float64
	}{
		{"lag_seconds", "Since when a commit isn't in the backup, 0 if all are", func(s archive.Status) float64 { return s.Lag.Seconds() }},
		{"lag_commits", "Commits that aren't in the backup", func(s archive.Status) float64 { return float64(s.Last - s.Stored) }},
		{"lag_bytes", "Bytes of the log that hold those commits, and what else is in the same files", func(s archive.Status) float64 { return float64(s.Behind) }},
		{"failing", "1 while the destination can't be reached, or the backup has ended", func(s archive.Status) float64 {
			if s.Err != nil || s.Fatal != nil {
				return 1
			}
			return 0
		}},
	} {
		err = errors.Join(err, registry.Register(prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Namespace: "greenroom", Subsystem: "backup", Name: g.name, Help: g.help},
			func() float64 { return g.of(r.writer.Status()) })))
	}
	return err
}
