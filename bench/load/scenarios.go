package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// scenario is what one operator does on one control plane. It adds the rows of the table.
type scenario struct {
	name, doc string
	run       func(context.Context, *environment) error
	// operators are those that it is for.
	operators []string
}

var (
	// compared can do the same.
	compared = []string{fescue, byHand}
	// withFloor is for scenarios whose requests can be sent by a program that does nothing else.
	withFloor = []string{fescue, byHand, floor}
	// alone is for what only Fescue can do.
	alone = []string{fescue}
)

var scenarios = []scenario{
	{"ats", "1,000 Ats that are due", dueAts, withFloor},
	{"ats-at-once", "300 Ats that become due in the same second", atsAtOnce, compared},
	{"watchers", "1,000 Watchers created, and all of them changed", changedWatchers, withFloor},
	{"sets", "20 Customclusters of 50 Pods, and another message for all", replacedSets, compared},
	{"webhook", "reviews of Pods sent to the webhook by 64 clients", rawWebhook, withFloor},
	{"idle", "10,000 objects of each kind: created, idle, one changed, operator restarted", idleObjects, compared},
	{"foreign", "20,000 Pods that no object is about", foreignPods, compared},
	{"growth", "Watchers up to 100, 1,000 and 10,000", growth, compared},
	{"mass", "3,000 Watchers changed at once, and one by a person", massChange, compared},
	{"shards", "5,000 Ats that are DONE, divided among 1, 2 and 4 replicas", dividedAts, alone},
}

func dueAts(ctx context.Context, e *environment) error { return e.finishAts(ctx, e.scaled(1000, 5)) }

// finishAts launches the operator and measures how n Ats become DONE.
func (e *environment) finishAts(ctx context.Context, n int) error {
	if err := e.launch(ctx, false); err != nil {
		return err
	}
	done, err := e.doneAts(ctx)
	if err != nil {
		return err
	}
	_, err = e.measure(ctx, fmt.Sprintf("%d Ats due, all DONE", n), patience(n), func(ctx context.Context) error {
		if err := e.createAts(ctx, n); err != nil {
			return err
		}
		return done.await(ctx, n)
	})
	return err
}

func atsAtOnce(ctx context.Context, e *environment) error {
	n := e.scaled(300, 5)
	if err := e.launch(ctx, false); err != nil {
		return err
	}
	pods, err := watch(ctx, e, &corev1.Pod{}, func(*corev1.Pod) bool { return true })
	if err != nil {
		return err
	}
	done, err := e.doneAts(ctx)
	if err != nil {
		return err
	}
	due := time.Now().Add(5*time.Second + time.Duration(n)*20*time.Millisecond).Truncate(time.Second)
	r, err := e.measure(ctx, fmt.Sprintf("%d Ats due in one second", n), patience(n), func(ctx context.Context) error {
		if err := each(ctx, n, func(ctx context.Context, i int) error {
			return e.client.Create(ctx, newAt(e.namespace, fmt.Sprintf("at-%d", i), due))
		}); err != nil {
			return err
		}
		return done.await(ctx, n)
	})
	if err != nil {
		return err
	}
	// The time until they are due is the same for all operators, whatever they do in it.
	delete(r.Values, seconds)
	var delays []time.Duration
	for i := range n {
		if created, ok := pods.at(fmt.Sprintf("at-%d-pod", i)); ok {
			delays = append(delays, created.Sub(due))
		}
	}
	r.quantiles("delay to the Pod", delays)
	return nil
}

func changedWatchers(ctx context.Context, e *environment) error {
	n := e.scaled(1000, 5)
	if err := e.launch(ctx, false); err != nil {
		return err
	}
	before, err := e.configured(ctx, "before")
	if err != nil {
		return err
	}
	if _, err := e.measure(ctx, fmt.Sprintf("%d Watchers created", n), patience(n), func(ctx context.Context) error {
		if err := e.createWatchers(ctx, 0, n, "before"); err != nil {
			return err
		}
		return before.await(ctx, n)
	}); err != nil {
		return err
	}
	after, err := e.configured(ctx, "after")
	if err != nil {
		return err
	}
	_, err = e.measure(ctx, fmt.Sprintf("%d Watchers changed", n), patience(n), func(ctx context.Context) error {
		if err := each(ctx, n, func(ctx context.Context, i int) error {
			return e.changeWatcher(ctx, watcherName(i), "after")
		}); err != nil {
			return err
		}
		return after.await(ctx, n)
	})
	return err
}

func replacedSets(ctx context.Context, e *environment) error {
	sets, count := e.scaled(20, 1), int32(50)
	pods := sets * int(count)
	if err := e.launch(ctx, false); err != nil {
		return err
	}
	all, err := watch(ctx, e, &corev1.Pod{}, func(*corev1.Pod) bool { return true })
	if err != nil {
		return err
	}
	await := func(message string) (func(context.Context) error, error) {
		running, err := e.running(ctx, message)
		if err != nil {
			return nil, err
		}
		complete, err := e.complete(ctx, count, message)
		return func(ctx context.Context) error {
			return until(ctx, func() (bool, error) {
				return running.count() == pods && all.count() == pods && complete.count() == sets, nil
			})
		}, err
	}
	awaitFirst, err := await("first")
	if err != nil {
		return err
	}
	if _, err := e.measure(ctx, fmt.Sprintf("%d × %d Pods, Running", sets, count), patience(pods),
		func(ctx context.Context) error {
			if err := e.createCustomclusters(ctx, sets, count, "first"); err != nil {
				return err
			}
			return awaitFirst(ctx)
		}); err != nil {
		return err
	}
	awaitSecond, err := await("second")
	if err != nil {
		return err
	}
	_, err = e.measure(ctx, "their message changed, all replaced", patience(pods), func(ctx context.Context) error {
		if err := each(ctx, sets, func(ctx context.Context, i int) error {
			cluster := newCustomcluster(e.namespace, fmt.Sprintf("cluster-%d", i), 0, "")
			return e.client.Patch(ctx, cluster,
				client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"message":"second"}}`)))
		}); err != nil {
			return err
		}
		return awaitSecond(ctx)
	})
	return err
}

func idleObjects(ctx context.Context, e *environment) error {
	n := e.scaled(10000, 5)
	if err := e.launch(ctx, false); err != nil {
		return err
	}
	empty, err := e.liveHeap(ctx, "heap without objects")
	if err != nil {
		return err
	}
	if err := e.createAll(ctx, n); err != nil {
		return err
	}
	r, err := e.measure(ctx, fmt.Sprintf("idle for %s", e.idle), 2*e.idle, func(ctx context.Context) error {
		select {
		case <-ctx.Done():
		case <-time.After(e.idle):
		}
		return nil
	})
	if err != nil {
		return err
	}
	delete(r.Values, seconds)
	heap, err := e.liveHeap(ctx, "heap with objects at rest")
	if err != nil {
		return err
	}
	r.add("live heap, MiB", heap)
	// Each At has a Pod, each Watcher a ConfigMap and each Customcluster a Pod.
	r.add("live heap per object, KiB", (heap-empty)*1024/float64(6*n))
	if err := e.changeOne(ctx, n); err != nil {
		return err
	}
	return e.restart(ctx)
}

// createAll creates n objects of each kind and waits until the operator has nothing left to do.
func (e *environment) createAll(ctx context.Context, n int) error {
	done, err := e.doneAts(ctx)
	if err != nil {
		return err
	}
	configured, err := e.configured(ctx, "idle")
	if err != nil {
		return err
	}
	complete, err := e.complete(ctx, 1, "idle")
	if err != nil {
		return err
	}
	if _, err = e.measure(ctx, fmt.Sprintf("%d objects of each kind created", n), patience(3*n),
		func(ctx context.Context) error {
			if err := e.createAts(ctx, n); err != nil {
				return err
			}
			if err := e.createWatchers(ctx, 0, n, "idle"); err != nil {
				return err
			}
			if err := e.createCustomclusters(ctx, n, 1, "idle"); err != nil {
				return err
			}
			return until(ctx, func() (bool, error) {
				return done.count() == n && configured.count() == n && complete.count() == n, nil
			})
		}); err != nil {
		return err
	}
	_, err = e.process.idleAfter(ctx)
	return err
}

// changeOne changes one Watcher of n after the other, and measures how long each takes to reach its
// ConfigMap.
func (e *environment) changeOne(ctx context.Context, n int) error {
	changes := min(n, 100)
	delays := make([]time.Duration, changes)
	changed, err := watch(ctx, e, &corev1.ConfigMap{},
		func(c *corev1.ConfigMap) bool { return c.Data[valueKey] == "changed" })
	if err != nil {
		return err
	}
	r, err := e.measure(ctx, "one of them changed", patience(changes), func(ctx context.Context) error {
		for i, which := range rand.Perm(n)[:changes] {
			began := time.Now()
			if err := e.changeWatcher(ctx, watcherName(which), "changed"); err != nil {
				return err
			}
			if err := changed.await(ctx, i+1); err != nil {
				return err
			}
			seen, _ := changed.at(watcherName(which) + "-config")
			delays[i] = seen.Sub(began)
		}
		return nil
	})
	if err != nil {
		return err
	}
	delete(r.Values, seconds)
	r.quantiles("change to the ConfigMap", delays)
	return nil
}

// restart restarts the operator. It is in sync when it is ready and no longer uses the CPU.
func (e *environment) restart(ctx context.Context) error {
	before, err := e.usage()
	if err != nil {
		return err
	}
	before.operator = 0 // it is another process
	if err := e.process.stop(); err != nil {
		return err
	}
	if err := e.startOperator(false); err != nil {
		return err
	}
	if err := e.process.awaitReady(ctx); err != nil {
		return err
	}
	took, err := e.process.idleAfter(ctx)
	if err != nil {
		return err
	}
	r := e.addRow("operator restarted, until it is idle")
	r.Values[seconds] = took.Seconds()
	if err := e.fill(r, before); err != nil {
		return err
	}
	r.add("writes", float64(r.Requests.writes()))
	return nil
}

func foreignPods(ctx context.Context, e *environment) error {
	n := e.scaled(20000, 5)
	if err := e.launch(ctx, false); err != nil {
		return err
	}
	namespace, err := e.newNamespace(ctx)
	if err != nil {
		return err
	}
	r, err := e.measure(ctx, fmt.Sprintf("%d foreign Pods created", n), patience(n), func(ctx context.Context) error {
		return each(ctx, n, func(ctx context.Context, i int) error {
			return e.client.Create(ctx, foreignPod(namespace, i))
		})
	})
	if err != nil {
		return err
	}
	delete(r.Values, seconds) // the operator has no part in it
	return nil
}

// foreignPod returns a Pod that no scheduler sees, so that the control plane has little to do.
func foreignPod(namespace string, i int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf("foreign-%d", i),
			Labels: map[string]string{"app.kubernetes.io/name": "foreign", "app.kubernetes.io/instance": fmt.Sprint(i)},
		},
		Spec: corev1.PodSpec{
			SchedulerName: "none",
			Containers: []corev1.Container{{Name: "main", Image: "nginx:latest",
				Env: []corev1.EnvVar{{Name: "NUMBER", Value: fmt.Sprint(i)}}}},
		},
	}
}

func growth(ctx context.Context, e *environment) error {
	if err := e.launch(ctx, false); err != nil {
		return err
	}
	configured, err := e.configured(ctx, "")
	if err != nil {
		return err
	}
	has := 0
	for _, full := range []int{100, 1000, 10000} {
		n := e.scaled(full, has+1)
		r, err := e.measure(ctx, fmt.Sprintf("from %d to %d Watchers", has, n), patience(n),
			func(ctx context.Context) error {
				if err := e.createWatchers(ctx, has, n, ""); err != nil {
					return err
				}
				return configured.await(ctx, n)
			})
		if err != nil {
			return err
		}
		r.add("CPU per new Watcher, ms", r.Values[operatorCPU]*1000/float64(n-has))
		has = n
	}
	return nil
}

func massChange(ctx context.Context, e *environment) error {
	n := e.scaled(3000, 5)
	if err := e.launch(ctx, false); err != nil {
		return err
	}
	before, err := e.configured(ctx, "before")
	if err != nil {
		return err
	}
	if err := e.createWatchers(ctx, 0, n+1, "before"); err != nil {
		return err
	}
	created, cancel := context.WithTimeout(ctx, patience(n))
	defer cancel()
	if err := before.await(created, n+1); err != nil {
		return err
	}
	after, err := e.configured(ctx, "after")
	if err != nil {
		return err
	}
	persons, err := e.configured(ctx, "by a person")
	if err != nil {
		return err
	}
	var changed time.Time
	r, err := e.measure(ctx, fmt.Sprintf("%d Watchers changed at once", n), patience(n),
		func(ctx context.Context) error {
			if err := each(ctx, n, func(ctx context.Context, i int) error {
				if i == n/2 {
					changed = time.Now()
					if err := e.changeWatcher(ctx, watcherName(n), "by a person"); err != nil {
						return err
					}
				}
				return e.changeWatcher(ctx, watcherName(i), "after")
			}); err != nil {
				return err
			}
			if err := after.await(ctx, n); err != nil {
				return err
			}
			return persons.await(ctx, 1)
		})
	if err != nil {
		return err
	}
	if done, ok := persons.at(watcherName(n) + "-config"); ok {
		r.add("one by a person in the middle, s", done.Sub(changed).Seconds())
	}
	return nil
}

// quantile returns the value below which a share of the sorted values are.
func quantile(sorted []time.Duration, share float64) float64 {
	return sorted[int(share*float64(len(sorted)-1))].Seconds()
}

// quantiles adds p50 and p99 of some delays.
func (r *row) quantiles(what string, delays []time.Duration) {
	if len(delays) == 0 {
		return
	}
	slices.Sort(delays)
	r.add(what+", p50 s", quantile(delays, 0.50))
	r.add(what+", p99 s", quantile(delays, 0.99))
}
