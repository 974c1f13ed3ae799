package greenroom

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
)

// A Migration takes the schema of an actor's database to a version.
type Migration struct {
	// Version is from 1 to 2³¹-1: it is what PRAGMA user_version is afterwards.
	Version uint64
	// Name is for people: in errors, and for tools.
	Name string
	// SQL is one or more statements; Func does what SQL can't, with everything that the actor has. A migration has one of them, or both: SQL is first.
	SQL  string
	Func func(tx *Tx) error
}

// Migrations are the versions of the schema of a type of actors, in ascending order. Each actor has the version that it was brought to last as its PRAGMA user_version, by which actors
// are found too (ActorInfo.Attributes, ActorsOptions.SchemaBelow). New ones are appended: one whose version is below that of an actor is never run for it.
type Migrations []Migration

var (
	// ErrMigrations: migrations that make no sense; the text says which.
	ErrMigrations = errors.New("greenroom: bad migrations")
	// ErrNewerSchema: the database of the actor has a version that the migrations don't reach, or that is above ActorOptions.MaxSchema: another version of the program made it. It comes as a
	// *SchemaError.
	ErrNewerSchema = actorstore.ErrNewerSchema
)

// A SchemaError says which version of its schema an actor has, and which is the last one known. It wraps ErrNewerSchema.
type SchemaError = actorstore.SchemaError

// maxSchema is the largest version: PRAGMA user_version has 32 bits with a sign.
const maxSchema = math.MaxInt32

// Check returns an error that wraps ErrMigrations if m makes no sense.
func (m Migrations) Check() error {
	last := uint64(0)
	for _, s := range m {
		switch {
		case s.Version > maxSchema:
			return fmt.Errorf("%w: version %d, the last one that can be stored is %d", ErrMigrations, s.Version, maxSchema)
		case s.Version <= last:
			return fmt.Errorf("%w: version %d comes behind version %d", ErrMigrations, s.Version, last)
		case strings.TrimSpace(s.SQL) == "" && s.Func == nil:
			return fmt.Errorf("%w: version %d has nothing to do", ErrMigrations, s.Version)
		}
		last = s.Version
	}
	return nil
}

// Latest returns the version that m leads to, 0 without any.
func (m Migrations) Latest() uint64 {
	if len(m) == 0 {
		return 0
	}
	return m[len(m)-1].Version
}

// Run runs in tx those of the migrations that the actor's database lacks, and returns the version that it had. They land with tx, all of them or none: the error of one names it, and
// then tx must not land.
//
// Errors: ErrMigrations; *SchemaError; those of the statements and functions.
func (m Migrations) Run(tx *Tx) (from uint64, err error) {
	if err := m.Check(); err != nil {
		return 0, err
	}
	if err := tx.QueryRow("pragma user_version").Scan(&from); err != nil {
		return 0, fmt.Errorf("greenroom: read the version of the schema: %w", err)
	}
	if from > m.Latest() {
		return from, &SchemaError{Found: from, Known: m.Latest()}
	}
	for _, s := range m {
		if s.Version <= from {
			continue
		}
		if err := s.run(tx); err != nil {
			return from, fmt.Errorf("greenroom: migration %d %s: %w", s.Version, s.Name, err)
		}
	}
	if from == m.Latest() {
		return from, nil
	}
	if _, err := tx.Exec(fmt.Sprintf("pragma user_version = %d", m.Latest())); err != nil {
		return from, fmt.Errorf("greenroom: store the version of the schema: %w", err)
	}
	return from, nil
}

func (s *Migration) run(tx *Tx) error {
	if strings.TrimSpace(s.SQL) != "" {
		if _, err := tx.Exec(s.SQL); err != nil {
			return err
		}
	}
	if s.Func == nil {
		return nil
	}
	return s.Func(tx)
}

// Migrate brings the database of an actor up in a transaction of its own, and returns the version that it had. One that has the latest version, as the store knows it, costs no read and
// isn't opened. Errors are those of Run and of Actor.Update.
func (m Migrations) Migrate(ctx context.Context, a *Actor) (from uint64, err error) {
	if err := m.Check(); err != nil {
		return 0, err
	}
	switch at := a.Lower().Attributes().Schema; {
	case at == m.Latest():
		return at, nil
	case at > m.Latest():
		return at, &SchemaError{Found: at, Known: m.Latest()}
	}
	err = a.Update(ctx, func(tx *Tx) (err error) {
		from, err = m.Run(tx)
		return err
	})
	return from, err
}

// ReadMigrations reads migrations from the files of a folder, as goose and golang-migrate name them: VERSION_NAME.sql, and VERSION_NAME.up.sql, whose VERSION_NAME.down.sql is left out, as is what
// is below "-- +goose Down" in a file of goose. VERSION is a number below 2³¹, or a time as 20060102150405, which becomes the number of seconds since the year 2000. Other files than those that end
// with .sql are left out.
//
// Each migration runs in the transaction of all, so what asks for another one ("-- +goose NO TRANSACTION") is ErrMigrations, as are migrations in Go, and those of goose that substitute variables.
func ReadMigrations(files fs.FS) (Migrations, error) {
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		return nil, fmt.Errorf("greenroom: read migrations: %w", err)
	}
	var all Migrations
	for _, e := range entries {
		name := e.Name()
		number, rest, found := strings.Cut(name, "_")
		version, numbered := schemaVersion(number)
		ext := path.Ext(name)
		switch {
		case e.IsDir() || ext != ".sql" && ext != ".go" || strings.HasSuffix(name, ".down.sql") || ext == ".go" && !numbered:
			continue
		case ext == ".go":
			return nil, fmt.Errorf("%w: %s is in Go: give it as a Migration with a Func", ErrMigrations, name)
		case !numbered || !found:
			return nil, fmt.Errorf("%w: %s doesn't begin with a version and _", ErrMigrations, name)
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("greenroom: read migrations: %w", err)
		}
		up, err := upPart(string(text))
		if err != nil {
			return nil, fmt.Errorf("%w: %s %w", ErrMigrations, name, err)
		}
		all = append(all, Migration{Version: version, Name: strings.TrimSuffix(strings.TrimSuffix(rest, ".sql"), ".up"), SQL: up})
	}
	slices.SortFunc(all, func(a, b Migration) int { return cmp.Compare(a.Version, b.Version) })
	return all, all.Check()
}

// schemaVersion returns the version that a text of digits stands for.
func schemaVersion(digits string) (version uint64, ok bool) {
	if len(digits) == len("20060102150405") {
		at, err := time.Parse("20060102150405", digits)
		seconds := at.Unix() - time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
		return uint64(seconds), err == nil && seconds > 0 && seconds <= maxSchema
	}
	version, err := strconv.ParseUint(digits, 10, 31)
	return version, err == nil && version > 0
}

// upPart returns what of a file is to be run.
func upPart(text string) (string, error) {
	var up strings.Builder
	in, marked := false, false
	for line := range strings.Lines(text) {
		word, isMark := gooseMark(line)
		marked = marked || isMark
		switch {
		case !isMark:
			if in {
				up.WriteString(line)
			}
		case word == "UP":
			in = true
		case word == "DOWN":
			in = false
		case word == "STATEMENTBEGIN" || word == "STATEMENTEND" || word == "ENVSUB OFF":
		default:
			return "", fmt.Errorf("has %q, which can't be done in a transaction of an actor", strings.TrimSpace(line))
		}
	}
	if !marked {
		return text, nil
	}
	return up.String(), nil
}

// gooseMark returns what a line says to goose, in upper case. As goose does it takes any space behind the dashes, and none.
func gooseMark(line string) (word string, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(line), "--")
	words := strings.Fields(rest)
	if !ok || len(words) == 0 || words[0] != "+goose" {
		return "", false
	}
	return strings.ToUpper(strings.Join(words[1:], " ")), true
}
