package alarm_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/alarm"
)

// TestSetBack: sources are rung when the clock was set back, within a minute, and not those that are held.
func TestSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back time.Duration
		c := alarm.New(&alarm.Options{Now: func() time.Time { return time.Now().Add(-back) }})
		defer c.Close()
		rung := 0
		s := c.Source(func() { rung++ })
		s.Set(time.Now().Add(time.Hour))
		held := c.Source(func() { t.Error("what is held was rung") })
		held.Hold(time.Now().Add(time.Hour))
		<-time.After(30 * time.Second)
		synctest.Wait()
		if rung != 0 {
			t.Error("it has rung early")
		}
		back = 24 * time.Hour
		<-time.After(time.Minute)
		synctest.Wait()
		if rung != 1 {
			t.Errorf("it has rung %d times after the clock was set back", rung)
		}
	})
}
