package admin

import (
	"context"
	"errors"
	"strings"

	"github.com/greenroomdb/greenroom"
)

// Migrate brings the schema of the actor's database to the latest version of migrations that it lacks, in one transaction: see greenroom.Migrations.
var Migrate = &Verb[MigrateIn, MigrateOut]{"migrate", "Bring the schema of an actor's database to a version.", migrate}

// MigrateIn is the request of Migrate.
type MigrateIn struct {
	Migrations []Migration `json:"migrations"` // all that there are, in ascending order
}

// A Migration takes a schema to a version.
type Migration struct {
	Version uint64 `json:"version"` // from 1 to 2147483647: PRAGMA user_version afterwards
	Name    string `json:"name,omitempty"`
	SQL     string `json:"sql"` // statements
}

// MigrateOut is the answer of Migrate.
type MigrateOut struct {
	From uint64 `json:"from"` // the version that the database had
	To   uint64 `json:"to"`   // that it has
}

func migrate(ctx context.Context, a *greenroom.Actor, _ string, in *MigrateIn) (*MigrateOut, error) {
	all := make(greenroom.Migrations, len(in.Migrations))
	for i, m := range in.Migrations {
		all[i] = greenroom.Migration{Version: m.Version, Name: m.Name, SQL: m.SQL}
	}
	from, err := all.Migrate(ctx, a)
	if err != nil {
		text := strings.TrimPrefix(err.Error(), "greenroom: ")
		if errors.Is(err, greenroom.ErrMigrations) {
			return nil, &Error{Code: "invalid", Message: text}
		}
		return nil, say(err, "%s", text)
	}
	return &MigrateOut{from, all.Latest()}, nil
}
