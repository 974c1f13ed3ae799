package pgkv

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/greenroomdb/greenroom/kv/txn"
)

// What a server has got of a transaction it does at once. If the rest is long in coming,
// from a host that hangs or over a slow network, it keeps what it has locked, and of that
// the gate is everybody's. So what is large is sent before the gate is asked for: a flow
// that is staged puts its arrays into a table of the session, and keeps back what is to
// be done with them. That is small, and goes out together with COMMIT. A row is written
// twice by that, once without a log, which takes up to twice the time; smaller
// transactions are sent whole in one go.

// stageAt is from how many bytes on a commit is staged; one that keeps all others out is
// from aloneAt.
const (
	stageAt = 8 << 20
	aloneAt = 1 << 20
)

// The table of the session. It is empty between transactions. Arrays are not worth to be
// compressed for a moment; the older servers can't be told so in one sentence.
const (
	stageTable  = `pg_temp.greenroom_stage`
	makeStage   = `create temp table if not exists greenroom_stage(i int8 primary key, b1 bytea[], b2 bytea[], b3 bytea[], b4 bytea[], b5 bytea[], n3 int8[], n6 int8[]) on commit delete rows`
	tuneStage   = `alter table ` + stageTable + ` alter b1 set storage external, alter b2 set storage external, alter b3 set storage external, alter b4 set storage external, alter b5 set storage external`
	insertStage = `insert into ` + stageTable + `(i, %s) values($1, %s)`
)

// arrayParam is an array among the parameters of a statement.
var arrayParam = regexp.MustCompile(`\$(\d)::(bytea|int8)\[\]`)

// staged returns the statement that takes its arrays from the table, by a number that is
// one parameter more.
func (s *statement) staged() *statement {
	from := fmt.Sprintf(`$1 from %s where i = $%d)`, stageTable, len(s.oids)+1)
	text := arrayParam.ReplaceAllStringFunc(s.text, func(m string) string {
		p := arrayParam.FindStringSubmatch(m)
		return `(select ` + stageColumn(p[2], p[1]) + strings.TrimPrefix(from, `$1`) + `::` + p[2] + `[]`
	})
	return &statement{text: text, oids: append(s.oids[:len(s.oids):len(s.oids)], oidInt8)}
}

// stageColumn returns the column for a parameter, by its type and number.
func stageColumn(kind, number string) string {
	if kind == "int8" {
		return "n" + number
	}
	return "b" + number
}

// Operations on the bits of large values are the one thing that takes a server long though
// it is little to write. So when their arrays are in the table they are evaluated there at
// once, with the values that are the newest then, and the versions of the rows are noted.
// Behind the gate only those are evaluated again whose rows were written meanwhile.
const (
	// lastOfBits is the last txn.Mutation of those that look at each bit or byte.
	lastOfBits = txn.MutationMin
	// foreseeAt is from how many bytes of such operands on a transaction is staged.
	foreseeAt = 128 << 10
)

// A request is one that is kept back.
type request struct {
	s      *statement
	params [][]byte
	row    func(columns [][]byte)
}

// stage keeps everything from here on back until the end, but for large arrays. It is
// called when the transaction has begun and holds nothing.
func (f *flow) stage() {
	if !f.c.staged {
		f.now(&statement{text: makeStage}, nil)
		f.now(&statement{text: tuneStage}, nil)
	}
	f.staging = true
}

// keep keeps a request back, and sends its arrays.
func (f *flow) keep(r request) {
	var columns, values []string
	row := &statement{oids: []uint32{oidInt8}}
	params := [][]byte{int8Param(int64(len(f.kept)))}
	small := make([][]byte, len(r.params), len(r.params)+1)
	for i, p := range r.params {
		kind := map[uint32]string{oidByteaArray: "bytea", oidInt8Array: "int8"}[r.s.oids[i]]
		if kind == "" {
			if p != nil {
				small[i] = append([]byte{}, p...)
			}
			continue
		}
		row.oids, params = append(row.oids, r.s.oids[i]), append(params, p)
		columns = append(columns, stageColumn(kind, fmt.Sprint(i+1)))
		values = append(values, fmt.Sprintf("$%d", len(params)))
	}
	r.params = small
	if len(columns) > 0 {
		row.text = fmt.Sprintf(insertStage, strings.Join(columns, ", "), strings.Join(values, ", "))
		f.now(row, nil, params...)
		if r.s == f.c.sql.mutate {
			f.now(f.c.sql.foresee, nil, params[0])
		}
		r.s, r.params = r.s.staged(), append(small, params[0])
	}
	f.kept = append(f.kept, r)
}

// release sends what was kept back.
func (f *flow) release() {
	f.staging = false
	for _, r := range f.kept {
		f.now(r.s, r.row, r.params...)
	}
}
