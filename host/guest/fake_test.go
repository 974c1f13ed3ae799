//go:build !wasip1

package guest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/greenroomdb/greenroom/host/internal/abi"
)

// A fakeHost stands in for the host: it answers every function with what a test has
// prepared, and remembers what it was given.
type fakeHost struct {
	asked   []string
	answer  map[string]any // results by the name of the function; an *abi.Fault is one
	pending []byte
	lossy   bool // take gives nothing
}

// install has all functions go to f until the test ends.
func (f *fakeHost) install(t *testing.T) {
	t.Helper()
	oldTake, oldNow := take, now
	take = func(to []byte) int32 {
		if f.lossy {
			return -1
		}
		return int32(copy(to, f.pending))
	}
	now = func() int64 { return 1000 }
	t.Cleanup(func() { take, now = oldTake, oldNow })
	for name, fn := range map[string]*function{
		"reply": &reply, "fail": &fail, "log": &logLine, "self": &whoami, "input": &input, "destroy": &destroy,
		"state_get": &stateGet, "state_set": &stateSet, "workflow_start": &workflowStart, "workflow_start_again": &workflowStartAgain, "workflow_status": &workflowStatus,
		"kv_get": &kvGet, "kv_put": &kvPut, "kv_delete": &kvDelete, "kv_delete_range": &kvDeleteRange, "kv_list": &kvList,
		"sql_exec": &sqlExec, "sql_query": &sqlQuery, "queue_send": &queueSend, "send": &send, "queue_receive": &queueReceive,
		"label": &label, "queue_complete": &queueComplete, "queue_nack": &queueNack, "queue_fail": &queueFail, "queue_bury": &queueBury, "queue_len": &queueLen, "schedule_add": &scheduleAdd,
		"schedule_cancel": &scheduleCancel, "schedule_list": &scheduleList, "conn_list": &connList, "conn_get": &connGet,
		"conn_set_state": &connSetState, "conn_subscribe": &connSubscribe, "conn_send": &connSend,
		"conn_disconnect": &connDisconnect, "broadcast": &broadcast,
	} {
		old := *fn
		*fn = func(arg []byte) int32 { return f.call(t, name, arg) }
		t.Cleanup(func() { *fn = old })
	}
}

func (f *fakeHost) call(t *testing.T, name string, arg []byte) int32 {
	var v any
	if err := Raw(arg).Decode(&v); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	f.asked = append(f.asked, fmt.Sprintf("%s %v", name, v))
	answer, fault := f.answer[name], false
	if e, ok := answer.(*abi.Fault); ok {
		answer, fault = *e, true
	}
	f.pending = nil
	if answer == nil {
		return 0
	}
	b, err := Encode(answer)
	if err != nil {
		t.Fatal(err)
	}
	f.pending = b
	if fault {
		return -int32(len(b))
	}
	return int32(len(b))
}

// want says what the host must have been asked since the last time.
func (f *fakeHost) want(t *testing.T, asked ...string) {
	t.Helper()
	if !slices.Equal(f.asked, asked) {
		t.Errorf("asked\n%q, want\n%q", f.asked, asked)
	}
	f.asked = nil
}
