package e2e

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var (
	soakTime = flag.Duration("soak", 0, "how long TestSoak runs; without it, it is left out")
	soakPlot = flag.String("soak-plot", "soak.svg", "the file that TestSoak writes its plot to")
)

const (
	// soakObjects is how many objects live at the same time, and soakDeed how often something is done to one.
	soakObjects = 150
	soakDeed    = time.Second / 5
	// soakSample is how often the operator is measured.
	soakSample = 5 * time.Second
)

// TestSoak lets objects of the shipped kinds come, change and go for a long time, each under a name that none had before, while requests
// fail or lose their answers. The operator has 512 MiB, and nothing of what is measured may grow. It is not parallel, because other tests
// would be measured with it.
func TestSoak(t *testing.T) {
	if *soakTime == 0 {
		t.Skip("it takes an hour: make soak runs it, or -soak 10m")
	}
	c, group := newCluster(t), newMemoryCgroup(t, 512<<20)
	c.wrapper = group.wrapper()
	o := c.start()
	failing := func(*http.Request) int {
		return []int{0, http.StatusInternalServerError, http.StatusTooManyRequests}[max(0, rand.IntN(100)-97)]
	}
	answered := func(response *http.Response) {
		if response.Request.Method != http.MethodGet && rand.IntN(100) == 0 {
			panic(http.ErrAbortHandler)
		}
	}
	c.proxy.failing.Store(&failing)
	c.proxy.answered.Store(&answered)

	l := lives{cluster: c, random: rand.New(rand.NewPCG(1, 1))}
	for len(l.alive) < soakObjects {
		l.step()
	}
	s := soak{began: time.Now()}
	deeds := time.NewTicker(soakDeed)
	defer deeds.Stop()
	for due := s.began; time.Since(s.began) < *soakTime; <-deeds.C {
		l.step()
		if !time.Now().Before(due) {
			due = due.Add(soakSample)
			s.add(o.scrape())
			c.proxy.requests.reset() // the test would grow
		}
	}
	require.NoError(t, os.WriteFile(*soakPlot, []byte(s.svg()), 0o600))
	t.Logf("%d objects lived; %s has the plot", l.created, *soakPlot)
	for i, m := range measures {
		t.Logf("%-22s mean %8.1f, highest %8.1f, growth %+.1f", m.name, mean(s.settled(i)), slices.Max(s.settled(i)), growth(s.settled(i)))
	}
	for i, m := range measures {
		require.LessOrEqual(t, growth(s.settled(i)), m.mayGrow*mean(s.settled(i)), "%s grows", m.name)
	}
	group.requireNoKill(t)
	require.False(t, o.hasEnded())
	require.Zero(t, o.stop())
}

// lives are objects that come, change and go.
type lives struct {
	*cluster
	random  *rand.Rand
	alive   []life
	created int
}

type life struct {
	resource schema.GroupVersionResource
	name     string
}

// step does something to one of the objects.
func (l *lives) step() {
	switch {
	case len(l.alive) < soakObjects:
		l.create()
	case l.random.IntN(2) == 0:
		l.change(l.alive[l.random.IntN(len(l.alive))])
	default:
		i := l.random.IntN(len(l.alive))
		l.remove(l.alive[i])
		l.alive = slices.Delete(l.alive, i, i+1)
	}
}

func (l *lives) create() {
	l.created++
	name := fmt.Sprint("x", l.created)
	of := []schema.GroupVersionResource{ats, watchers, customclusters}[l.random.IntN(3)]
	switch of {
	case ats:
		l.createAt(name, time.Now().Add(time.Duration(l.random.IntN(60))*time.Second).UTC().Format(time.RFC3339), "echo "+name)
	case watchers:
		l.createWatcher(name, map[string]any{"key": name})
	case customclusters:
		l.createCustomcluster(name, int64(l.random.IntN(4)), name)
	}
	l.alive = append(l.alive, life{of, name})
}

func (l *lives) change(of life) {
	patch := fmt.Sprintf(`{"metadata":{"labels":{"step":"%d"}}}`, l.random.IntN(1000))
	switch of.resource {
	case watchers:
		patch = fmt.Sprintf(`{"spec":{"configData":{"key":"%d"}}}`, l.random.IntN(1000))
	case customclusters:
		patch = fmt.Sprintf(`{"spec":{"count":%d}}`, l.random.IntN(4))
	}
	_, err := l.objects(of.resource).Patch(l.t.Context(), of.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(l.t, err)
}

func (l *lives) remove(of life) {
	err := l.objects(of.resource).Delete(l.t.Context(), of.name, metav1.DeleteOptions{})
	require.True(l.t, err == nil || apierrors.IsNotFound(err), "%v", err)
}

// measure is something that an operator tells of itself.
type measure struct {
	name string
	// of returns the present value, or one that only grows if isCounter: then what counts is how fast.
	of        func(map[string]*dto.MetricFamily) float64
	isCounter bool
	// mayGrow is by what part of its mean it may grow from the end of the first fifth on.
	mayGrow float64
}

var measures = []measure{
	{name: "resident MiB", of: gauge("process_resident_memory_bytes", 1<<20), mayGrow: 0.2},
	{name: "heap MiB", of: gauge("go_memstats_heap_alloc_bytes", 1<<20), mayGrow: 0.3},
	{name: "goroutines", of: gauge("go_goroutines", 1), mayGrow: 0.1},
	{name: "descriptors", of: gauge("process_open_fds", 1), mayGrow: 0.2},
	{name: "requests/s", of: gauge("rest_client_requests_total", 1), isCounter: true, mayGrow: 0.3},
	{name: "reconciles/s", of: gauge("controller_runtime_reconcile_total", 1), isCounter: true, mayGrow: 0.3},
	{name: "ms in reconciles/s", of: gauge("controller_runtime_reconcile_time_seconds", 1e-3), isCounter: true, mayGrow: 1},
}

// gauge returns the sum of the series of a family, in a unit.
func gauge(name string, unit float64) func(map[string]*dto.MetricFamily) float64 {
	return func(families map[string]*dto.MetricFamily) (sum float64) {
		for _, metric := range families[name].GetMetric() {
			sum += metric.GetGauge().GetValue() + metric.GetCounter().GetValue() + metric.GetHistogram().GetSampleSum()
		}
		return sum / unit
	}
}

// soak has what was measured: the last values, and a row for each sample.
type soak struct {
	began, at time.Time
	last      []float64
	rows      [][]float64
}

// add adds a sample.
func (s *soak) add(families map[string]*dto.MetricFamily) {
	now, values, row := time.Now(), make([]float64, len(measures)), make([]float64, len(measures))
	for i, m := range measures {
		values[i] = m.of(families)
		row[i] = values[i]
		if m.isCounter && s.last != nil {
			row[i] = (values[i] - s.last[i]) / now.Sub(s.at).Seconds()
		}
	}
	if s.last != nil {
		s.rows = append(s.rows, row)
	}
	s.at, s.last = now, values
}

// column returns all values of a measure, and settled those after the first fifth of the time.
func (s *soak) column(i int) (values []float64) {
	for _, row := range s.rows {
		values = append(values, row[i])
	}
	return values
}

func (s *soak) settled(i int) []float64 { return s.column(i)[len(s.rows)/5:] }

func mean(values []float64) (m float64) {
	for _, v := range values {
		m += v / float64(len(values))
	}
	return m
}

// growth returns by how much the line of least squares through values rises from the first to the last.
func growth(values []float64) float64 {
	middle, average := float64(len(values)-1)/2, mean(values)
	var products, squares float64
	for i, v := range values {
		products += (float64(i) - middle) * (v - average)
		squares += (float64(i) - middle) * (float64(i) - middle)
	}
	return products / squares * float64(len(values)-1)
}

// svg draws each measure over time, from zero to its highest value.
func (s *soak) svg() string {
	const width, height, left, pitch = 900, 90, 190, 120
	var text strings.Builder
	fmt.Fprintf(&text, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`, left+width+20, pitch*len(measures)+40)
	fmt.Fprintf(&text, `<rect width="100%%" height="100%%" fill="white"/>`)
	for i, m := range measures {
		values := s.column(i)
		top, bottom := max(slices.Max(values), 1e-9), pitch*i+20+height
		fmt.Fprintf(&text, `<text x="10" y="%d">%s</text><text x="10" y="%d" fill="gray">highest %.1f</text>`, bottom-height+14, m.name, bottom-height+32, top)
		fmt.Fprintf(&text, `<path d="M%d %dv-%dM%[1]d %[2]dh%[4]d" stroke="gray" fill="none"/><polyline fill="none" stroke="steelblue" points="`, left, bottom, height, width)
		for j, v := range values {
			fmt.Fprintf(&text, "%.1f,%.1f ", left+float64(j*width)/float64(len(values)-1), float64(bottom)-v/top*height)
		}
		text.WriteString(`"/>`)
	}
	fmt.Fprintf(&text, `<text x="%d" y="%d">%v</text></svg>`+"\n", left+width-60, pitch*len(measures)+30, s.at.Sub(s.began).Round(time.Second))
	return text.String()
}
