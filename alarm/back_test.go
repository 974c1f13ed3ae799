package alarm_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/alarm"
)

// TestSetBack: sources are rung when the clock was set back, within a minute, and not those that are held.
func TestSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back atomic.Int64
		c := alarm.New(&alarm.Options{Now: func() time.Time { return time.Now().Add(-time.Duration(back.Load())) }})
		defer c.Close()
		var rung atomic.Int32
		s := c.Source(func() { rung.Add(1) })
		s.Set(time.Now().Add(time.Hour))
		held := c.Source(func() { t.Error("what is held was rung") })
		held.Hold(time.Now().Add(time.Hour))
		<-time.After(30 * time.Second)
		synctest.Wait()
		if rung.Load() != 0 {
			t.Error("it has rung early")
		}
		back.Store(int64(24 * time.Hour))
		<-time.After(time.Minute)
		synctest.Wait()
		if n := rung.Load(); n != 1 {
			t.Errorf("it has rung %d times after the clock was set back", n)
		}
	})
}
