package kind

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func timeOf(t testing.TB, text string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return parsed.UTC()
}

func TestParseSchedule(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ text, zone, message string }{
		{"0 6 * * 1-5", "", ""},
		{"*/15 0-6,22 1 jan sun", "Europe/Berlin", ""},
		{"@hourly", "Etc/UTC", ""},
		{"@every 90m", "", ""},
		{"0 0 29 2 *", "", ""},
		{"", "", `"" is not a cron schedule like "0 6 * * 1-5": empty spec string`},
		{"* * * *", "", `"* * * *" is not a cron schedule like "0 6 * * 1-5": expected exactly 5 fields, found 4: [* * * *]`},
		{"0 0 * * * *", "", `"0 0 * * * *" is not a cron schedule like "0 6 * * 1-5": expected exactly 5 fields, found 6: [0 0 * * * *]`},
		{"61 * * * *", "", `"61 * * * *" is not a cron schedule like "0 6 * * 1-5": end of range (61) above maximum (59): 61`},
		{"TZ=UTC 0 6 * * *", "", `"TZ=UTC 0 6 * * *" must not have a time zone: write timeZone`},
		{"TZ=0", "", `"TZ=0" must not have a time zone: write timeZone`},
		{"0 0 31 2 *", "", `"0 0 31 2 *" is a cron schedule without any time: no month has that day`},
		{"@daily", "Europe/Atlantis", `"Europe/Atlantis" is not the name of a time zone like "Europe/Berlin": unknown time zone Europe/Atlantis`},
		{"@daily", "Local", `"Local" is not the name of a time zone like "Europe/Berlin": it depends on the machine`},
		{"@daily", "../UTC", `"../UTC" is not the name of a time zone like "Europe/Berlin": time: invalid location name`},
	} {
		s, err := ParseSchedule(tc.text, tc.zone)
		if tc.message == "" {
			require.NoError(t, err)
			require.NotNil(t, s)
			continue
		}
		require.EqualError(t, err, tc.message)
	}
}

// The times of a day on which the clock changes are those of a CronJob, whose parser this is.
func TestScheduleFollowsTheClock(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text, zone, since string
		want              []string
	}{
		"UTC by default":          {"0 6 * * *", "", "2030-06-01T00:00:00Z", []string{"2030-06-01T06:00:00Z"}},
		"summer":                  {"0 6 * * *", "Europe/Berlin", "2030-06-01T00:00:00Z", []string{"2030-06-01T04:00:00Z"}},
		"skipped by the clock":    {"30 2 * * *", "Europe/Berlin", "2030-03-30T12:00:00Z", []string{"2030-04-01T00:30:00Z"}},
		"hourly, as ever":         {"0 * * * *", "Europe/Berlin", "2030-03-30T23:30:00Z", []string{"2030-03-31T00:00:00Z", "2030-03-31T01:00:00Z"}},
		"repeated by the clock":   {"30 2 * * *", "Europe/Berlin", "2030-10-26T12:00:00Z", []string{"2030-10-27T00:30:00Z", "2030-10-27T01:30:00Z", "2030-10-28T01:30:00Z"}},
		"a delay from the start":  {"@every 90m", "", "2030-01-01T00:10:20Z", []string{"2030-01-01T01:40:20Z", "2030-01-01T03:10:20Z"}},
		"the 29th, in four years": {"0 0 29 2 *", "", "2030-01-01T00:00:00Z", []string{"2032-02-29T00:00:00Z"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := ParseSchedule(tc.text, tc.zone)
			require.NoError(t, err)
			next := timeOf(t, tc.since)
			for _, want := range tc.want {
				next = s.Next(next)
				require.Equal(t, want, next.Format(time.RFC3339))
			}
		})
	}
}

// The last time is found as if each time since were looked at.
func TestLastOfSchedule(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe"} {
		for _, text := range []string{"* * * * *", "7 * * * *", "30 1-3 * * *", "0 0 1 * *", "30 6-16/4 * * 1-5", "* 2 30,31 3,10 *", "@every 7m", "@every 5h"} {
			s, err := ParseSchedule(text, zone)
			require.NoError(t, err)
			since := timeOf(t, "2030-03-30T22:17:31Z").Add(123 * time.Millisecond)
			var last time.Time
			next := s.Next(since)
			for _, step := range []time.Duration{0, time.Second, time.Minute, time.Hour, 3 * time.Hour, 29 * time.Hour, 400 * time.Hour} {
				now := since.Add(step)
				for !next.After(now) {
					last, next = next, s.Next(next)
				}
				require.Equal(t, last, s.Last(since, now), "%s in %q, %s later", text, zone, step)
			}
		}
	}
	s, err := ParseSchedule("* * * * *", "")
	require.NoError(t, err)
	require.Equal(t, timeOf(t, "2030-01-01T00:00:00Z"), s.Last(time.Time{}, timeOf(t, "2030-01-01T00:00:59Z")), "missed since ever")
}

func BenchmarkParseSchedule(b *testing.B) {
	for b.Loop() {
		if _, err := ParseSchedule("0 6 * * 1-5", "Europe/Berlin"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLastOfSchedule(b *testing.B) {
	s, err := ParseSchedule("0 6 * * 1-5", "Europe/Berlin")
	require.NoError(b, err)
	since, now := timeOf(b, "2020-01-01T00:00:00Z"), timeOf(b, "2030-01-01T00:00:00Z")
	for b.Loop() {
		s.Last(since, now)
	}
}

// What is next after a missed time counts from the same time as that.
func TestAround(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, since, now, want string }{
		"delays, two missed":      {"@every 90m", "2030-01-01T00:10:00Z", "2030-01-01T03:20:00Z", "2030-01-01T04:40:00Z"},
		"delays, now":             {"@every 90m", "2030-01-01T00:10:00Z", "2030-01-01T01:40:00Z", "2030-01-01T03:10:00Z"},
		"hours, two missed":       {"@hourly", "2030-01-01T00:10:00Z", "2030-01-01T02:20:00Z", "2030-01-01T03:00:00Z"},
		"the clock was set back":  {"@hourly", "2030-01-01T05:00:00Z", "2030-01-01T02:20:00Z", "2030-01-01T06:00:00Z"},
		"the clock repeats it":    {"30 2 * * *", "2030-10-26T12:00:00Z", "2030-10-27T00:45:00Z", "2030-10-27T01:30:00Z"},
		"nothing was missed, yet": {"@every 90m", "2030-01-01T00:10:00Z", "2030-01-01T00:20:00Z", "2030-01-01T01:40:00Z"},
	} {
		zone := ""
		if name == "the clock repeats it" {
			zone = "Europe/Berlin"
		}
		s, err := ParseSchedule(tc.text, zone)
		require.NoError(t, err)
		_, next := s.Around(timeOf(t, tc.since), timeOf(t, tc.now))
		require.Equal(t, timeOf(t, tc.want), next, name)
	}
}
