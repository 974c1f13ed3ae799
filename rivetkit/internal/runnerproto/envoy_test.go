package runnerproto_test

import (
	"math"
	"slices"

	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// Parts of golden messages of the envoy protocol.
const (
	fence    = "01 0200000000000000 01 0900000000000000" // generation 2, head 9
	noFence  = "00 00"
	database = "016e 0161 0200000000000000"
	page     = "03000000 02ff00"
	sqlError = "01 0167 0163 016d"
)

var (
	fenced = rp.Fence{Generation: rp.Some[uint64](2), Head: rp.Some[uint64](9)}
	pages  = []rp.Page{{Number: 3, Data: []byte{255, 0}}}
	db     = rp.Database{Namespace: "n", Actor: "a", Generation: 2}
	reason = rp.AbortReason{Kind: rp.AbortInternalError, Detail: rp.Some("d")}
)

func failed[T any]() rp.Reply[T] {
	return rp.Reply[T]{ID: 7, Err: &rp.SQLiteError{Group: "g", Code: "c", Message: "m"}}
}

func reply[T any](result T) rp.Reply[T] { return rp.Reply[T]{ID: 7, Result: result} }

var fromEnvoy = slices.Concat([]golden[rp.ToEngine]{
	{"00 00 00", rp.RunnerInit{}, envoys},
	{"00 01 02 017a 00 0162 027b7d 01 027b7d",
		rp.RunnerInit{ActorNames: []rp.ActorName{{"z", ""}, {"b", "{}"}}, Metadata: rp.Some("{}")}, envoys},
	{"06" + message + "02 00 00", fromActor(rp.ResponseAbort{}), only8},
	{"06" + message + "02 03 01 0164", fromActor(rp.ResponseAbort{Reason: reason}), only8},
	{"06" + message + "03 0102000000000000", fromActor(rp.RequestWindow{Bytes: 513}), only8},
	{"06" + message + "04", fromActor(rp.BodyCancel{}), only8},
	{"06" + message + "05 01", fromActor(rp.SocketAccept{CanHibernate: true}), only8},
	{"06" + message + "06 026869 00", fromActor(rp.SocketMessage{Data: []byte("hi")}), only8},
	{"06" + message + "07 feff", fromActor(rp.SocketAck{Index: 65534}), only8},
	{"06" + message + "08 01 e803 01 03627965 01",
		fromActor(rp.ActorClose{Code: rp.Some[uint16](1000), Reason: rp.Some("bye"), Hibernate: true}), only8},
	{"07 07000000 0161 00" + noFence, rp.GetPages{ID: 7, Actor: "a"}, envoys},
	{"07 07000000 0161 02 01000000 00010000" + fence, rp.GetPages{ID: 7, Actor: "a", Numbers: []uint32{1, 256}, Fence: fenced}, envoys},
	{"08 07000000 0161 00 05000000 ffffffffffffffff" + noFence, rp.Commit{ID: 7, Actor: "a", Size: 5, At: -1}, envoys},
	{"08 07000000 0161 01" + page + "05000000 0100000000000000" + fence,
		rp.Commit{ID: 7, Actor: "a", Pages: pages, Size: 5, At: 1, Fence: fenced}, envoys},
	{"09 07000000 0161" + fence, rp.BeginStage{ID: 7, Actor: "a", Fence: fenced}, only8},
	{"0a 07000000 0161 01 0200000000000000 0a00000000000000 40010000 01" + page,
		rp.StageSegment{ID: 7, Actor: "a", Generation: fenced.Generation, TxID: 10, First: 320, Pages: pages}, only8},
	{"0b 07000000 0161 00 0a00000000000000 05000000 0100000000000000 02 00000000 40010000",
		rp.FinishStage{ID: 7, Actor: "a", TxID: 10, Size: 5, At: 1, Segments: []uint32{0, 320}}, only8},
}, sqlFromEnvoy("09", "0a", "0b", only6), sqlFromEnvoy("0c", "0d", "0e", only8))

// sqlFromEnvoy is the messages with SQL, by their tags.
func sqlFromEnvoy(exec, execute, batch string, versions []rp.Version) []golden[rp.ToEngine] {
	return []golden[rp.ToEngine]{
		{exec + "07000000" + database + "0178", rp.Exec{ID: 7, Database: db, SQL: "x"}, versions},
		{execute + "07000000" + database + "0178 00", rp.Execute{ID: 7, Database: db, Statement: rp.Statement{SQL: "x"}}, versions},
		{execute + "07000000" + database + "0178 01 06 00 01 feffffffffffffff 02 3ff8000000000000 03 0161 04 00 04 0107",
			rp.Execute{ID: 7, Database: db, Statement: rp.Statement{SQL: "x", Params: []rp.Value{nil, int64(-2), 1.5, "a", []byte{}, []byte{7}}}}, versions},
		{batch + "07000000" + database + "02 0178 01 00 00 00",
			rp.ExecuteBatch{ID: 7, Database: db, Statements: []rp.Statement{{SQL: "x", Params: []rp.Value{}}, {}}}, versions},
	}
}

var toEnvoy = slices.Concat([]golden[rp.ToRunner]{
	{"00 983a000000000000 40771b0000000000 0000400100000000",
		rp.EngineInit{LostThreshold: 15000, StopThreshold: 1_800_000, MaxResponse: 20 << 20}, envoys},
	{"01 01" + checkpoint + "00 016e 00 0100000000000000 00 00 00", command(rp.StartActor{Name: "n", CreatedAt: 1}), envoys},
	{"01 01" + checkpoint + "00 016e 01 016b ffffffffffffffff 01 00 01 67773031 00000003 01" +
		"01 0101 00 0130 0100000000000000 02 00 0102 01 0103",
		command(rp.StartActor{Name: "n", Key: rp.Some("k"), CreatedAt: -1, Input: []byte{}, Hibernating: []rp.TunnelID{tunnel},
			Preloaded: rp.Some(rp.PreloadedKV{Entries: []rp.KVEntry{{[]byte{1}, []byte{}, []byte("0"), 1}}, Keys: [][]byte{{}, {2}}, Prefixes: [][]byte{{3}}})}), envoys},
	{"01 01" + checkpoint + "01 00", command(rp.StopActor{}), envoys},
	{"01 01" + checkpoint + "01 04", command(rp.StopActor{Reason: rp.StopLost}), envoys},
	{"04" + message + "00 0161 00 03474554 012f 00 00 00 00", toActor(rp.RequestStart{Actor: "a", Method: "GET", Path: "/"}), only8},
	{"04" + message + "00 0161 01 02000000 04504f5354 032f3f71 01 0162 0131 01 0101 00 01",
		toActor(rp.RequestStart{Actor: "a", Generation: rp.Some[uint32](2), Method: "POST", Path: "/?q", Headers: []rp.Header{{"b", "1"}},
			Body: []byte{1}, StreamResponse: true}), only8},
	{"04" + message + "02 00 00 00 00", toActor(rp.RequestAbort{}), only8},
	{"04" + message + "02 01 0161 01 02000000 03 01 0164",
		toActor(rp.RequestAbort{Actor: rp.Some("a"), Generation: rp.Some[uint32](2), Reason: reason}), only8},
	{"04" + message + "03", toActor(rp.BodyCancel{}), only8},
	{"04" + message + "04 0102000000000000", toActor(rp.ResponseWindow{Bytes: 513}), only8},
	{"04" + message + "05 0161 00 012f 00", toActor(rp.SocketOpen{Actor: "a", Path: "/"}), only8},
	{"04" + message + "05 0161 01 02000000 012f 01 0162 0131",
		toActor(rp.SocketOpen{Actor: "a", Generation: rp.Some[uint32](2), Path: "/", Headers: []rp.Header{{"b", "1"}}}), only8},
	{"04" + message + "06 0100 01", toActor(rp.SocketMessage{Data: []byte{0}, Binary: true}), only8},
	{"04" + message + "07 01 e903 01 00", toActor(rp.ClientClose{Code: rp.Some[uint16](1001), Reason: rp.Some("")}), only8},
	{"06 07000000 00 00 00", reply(rp.Pages{}), envoys},
	{"06 07000000 00 02 03000000 01 02ff00 04000000 00 01 0900000000000000",
		reply(rp.Pages{Pages: []rp.Page{pages[0], {Number: 4}}, Head: fenced.Head}), envoys},
	{"06 07000000" + sqlError, failed[rp.Pages](), envoys},
	{"07 07000000 00 00", reply(rp.Committed{}), envoys},
	{"07 07000000 00 01 0900000000000000", reply(rp.Committed{Head: fenced.Head}), envoys},
	{"07 07000000" + sqlError, failed[rp.Committed](), envoys},
	{"08 07000000 00 0900000000000000", reply(rp.StageBegun{TxID: 9}), only8},
	{"08 07000000" + sqlError, failed[rp.StageBegun](), only8},
	{"09 07000000 00 0900000000000000", reply(rp.SegmentStaged{Bytes: 9}), only8},
	{"09 07000000" + sqlError, failed[rp.SegmentStaged](), only8},
	{"0a 07000000 00 01 0900000000000000", reply(rp.StageFinished{Head: fenced.Head}), only8},
	{"0a 07000000" + sqlError, failed[rp.StageFinished](), only8},
}, sqlToEnvoy("08", "09", "0a", only6), sqlToEnvoy("0b", "0c", "0d", only8))

// sqlToEnvoy is the answers to messages with SQL, by their tags.
func sqlToEnvoy(exec, execute, batch string, versions []rp.Version) []golden[rp.ToRunner] {
	const rowsHex = "02 0178 00 02 02 00 01 0100000000000000 01 02 7ff0000000000000"
	rows := rp.Table{Columns: []string{"x", ""}, Rows: [][]rp.Value{{nil, int64(1)}, {math.Inf(1)}}}
	return []golden[rp.ToRunner]{
		{exec + "07000000 00 00 00", reply(rp.Table{}), versions},
		{exec + "07000000 00" + rowsHex, reply(rows), versions},
		{exec + "07000000" + sqlError, failed[rp.Table](), versions},
		{execute + "07000000 00" + rowsHex + "ffffffffffffffff 01 0500000000000000",
			reply(rp.Result{Table: rows, Changes: -1, LastInsertID: rp.Some[int64](5)}), versions},
		{execute + "07000000" + sqlError, failed[rp.Result](), versions},
		{batch + "07000000 00 02 00 00 0100000000000000 00" + rowsHex + "0000000000000000 01 0500000000000000",
			reply(rp.Results{{Changes: 1}, {Table: rows, LastInsertID: rp.Some[int64](5)}}), versions},
		{batch + "07000000" + sqlError, failed[rp.Results](), versions},
	}
}
