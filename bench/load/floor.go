package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	toolswatch "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fescue-dev/fescue/bench/byhand/api"
	"github.com/fescue-dev/fescue/bench/byhand/controller"
)

// floorCommand is the first argument that makes this program the floor.
const floorCommand = "floor"

// floorWorkers is the number of objects of one kind for which requests are sent at the same time, as
// many as the operators reconcile.
const floorWorkers = 32

// runFloor sends the requests of an operator for Ats and Watchers, and answers reviews of Pods,
// without caches, retries or decisions: what an operator costs at least.
func runFloor(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet(floorCommand, flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "path of the kubeconfig file")
	health := flags.String("health", "", "address that serves /readyz")
	webhook := flags.String("webhook", "", "address that serves /inject; none by default")
	certificate := flags.String("webhook-cert-dir", "", "folder with tls.crt and tls.key")
	if err := flags.Parse(args); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	c, err := newClient(config)
	if err != nil {
		return err
	}
	failed := make(chan error, 4)
	go func() { failed <- follow(ctx, c, &api.AtList{}, finishAt) }()
	go func() { failed <- follow(ctx, c, &api.WatcherList{}, configure) }()
	go func() {
		failed <- http.ListenAndServe(*health, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	}()
	if *webhook != "" {
		// As the operators, without HTTP/2.
		protocols := new(http.Protocols)
		protocols.SetHTTP1(true)
		server := &http.Server{Addr: *webhook, Handler: http.HandlerFunc(allow), Protocols: protocols}
		go func() {
			failed <- server.ListenAndServeTLS(filepath.Join(*certificate, "tls.crt"),
				filepath.Join(*certificate, "tls.key"))
		}()
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// follow calls do for each object of a type, and again when its generation has changed.
func follow[T client.Object](
	ctx context.Context, c client.WithWatch, list client.ObjectList, do func(context.Context, client.Client, T) error,
) error {
	failed := make(chan error, floorWorkers)
	queue := make(chan T)
	defer close(queue)
	for range floorWorkers {
		go func() {
			for object := range queue {
				if err := do(ctx, c, object); err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	generations := make(map[client.ObjectKey]int64)
	see := func(seen runtime.Object) error {
		object, ok := seen.(T)
		if !ok {
			return fmt.Errorf("watch: %v", seen)
		}
		key := client.ObjectKeyFromObject(object)
		if object.GetDeletionTimestamp() != nil || generations[key] == object.GetGeneration() {
			return nil
		}
		generations[key] = object.GetGeneration()
		select {
		case queue <- object:
			return nil
		case err := <-failed:
			return err
		}
	}
	if err := c.List(ctx, list); err != nil {
		return err
	}
	if err := apimeta.EachListItem(list, see); err != nil {
		return err
	}
	// The API server ends watches under load.
	events, err := toolswatch.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
			return c.Watch(ctx, list, &client.ListOptions{Raw: &options})
		},
	})
	if err != nil {
		return err
	}
	for event := range events.ResultChan() {
		if err := see(event.Object); err != nil {
			return err
		}
	}
	if ctx.Err() == nil {
		return errors.New("the watch has ended")
	}
	return nil
}

// finishAt sends what an At needs from its creation to its end.
func finishAt(ctx context.Context, c client.Client, at *api.At) error {
	if err := patchStatus(ctx, c, at, `{"phase":"RUNNING"}`); err != nil {
		return err
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: at.Namespace, Name: at.Name + "-pod", Labels: map[string]string{"app": at.Name},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(at, api.AtVersion.WithKind("At"))},
		},
		Spec: corev1.PodSpec{
			RestartPolicy:   corev1.RestartPolicyOnFailure,
			SecurityContext: controller.PodSecurity(),
			Containers: []corev1.Container{{
				Name: "command", Image: at.Spec.Image, Command: strings.Fields(at.Spec.Command),
				SecurityContext: controller.ContainerSecurity(),
			}},
		},
	}
	if err := c.Create(ctx, pod); client.IgnoreAlreadyExists(err) != nil {
		return err
	}
	return patchStatus(ctx, c, at, `{"phase":"DONE"}`)
}

// configure creates or updates the ConfigMap of a Watcher, and reports it.
func configure(ctx context.Context, c client.Client, watcher *api.Watcher) error {
	config := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: watcher.Namespace, Name: watcher.Name + "-config",
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(watcher,
				api.WatcherVersion.WithKind("Watcher"))},
		},
		Data: watcher.Spec.ConfigData,
	}
	write := func() error { return c.Create(ctx, config) }
	if watcher.Generation > 1 {
		write = func() error { return c.Update(ctx, config) }
	}
	if err := write(); client.IgnoreAlreadyExists(err) != nil {
		return err
	}
	return patchStatus(ctx, c, watcher, fmt.Sprintf(`{"configMapName":%q,"observedGeneration":%d}`, config.Name,
		watcher.Generation))
}

func patchStatus(ctx context.Context, c client.Client, object client.Object, status string) error {
	return c.Status().Patch(ctx, object,
		client.RawPatch("application/merge-patch+json", []byte(`{"status":`+status+`}`)))
}

// bodies are reused, like the operators' own.
var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// allow only finds the UID of a review, and allows the Pod.
func allow(w http.ResponseWriter, r *http.Request) {
	body := bodies.Get().(*bytes.Buffer)
	defer bodies.Put(body)
	body.Reset()
	_, err := io.Copy(body, r.Body)
	_, rest, _ := bytes.Cut(body.Bytes(), []byte(`"uid":"`))
	uid, _, found := bytes.Cut(rest, []byte(`"`))
	if err != nil || !found {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"` +
		string(uid) + `","allowed":true}}`))
}
