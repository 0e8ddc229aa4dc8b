package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// webhookClients is the number of clients that send reviews at the same time.
const webhookClients = 64

// rawWebhook sends reviews of a Pod that asks for a sidecar, without the API server.
func rawWebhook(ctx context.Context, e *environment) error {
	n := e.scaled(100000, 100)
	body, err := e.reviewOfPod(ctx)
	if err != nil {
		return err
	}
	if err := e.launch(ctx, true); err != nil {
		return err
	}
	if err := e.client.Create(ctx, newWatcher(e.namespace, "log", "")); err != nil {
		return err
	}
	clients, err := e.webhookClients()
	if err != nil {
		return err
	}
	ready, cancel := context.WithTimeout(ctx, patience(0))
	defer cancel()
	var last error
	if err := until(ready, func() (bool, error) {
		answer, err := e.review(ready, clients[0], body)
		if err == nil && !bytes.Contains(answer, []byte(`"patch":`)) && e.operator != floor {
			err = fmt.Errorf("the answer has no patch: %s", answer)
		}
		if ready.Err() == nil {
			last = err
		}
		return err == nil, nil
	}); err != nil {
		return fmt.Errorf("wait for the injection: %w: %w", err, last)
	}
	if err := e.settle(ctx); err != nil {
		return err
	}
	r, err := e.measure(ctx, fmt.Sprintf("%d reviews of Pods", n), patience(n), func(ctx context.Context) error {
		return e.sendReviews(ctx, clients, body, n)
	})
	if err == nil {
		r.add("reviews/s", float64(n)/r.Values[seconds])
	}
	return err
}

func (e *environment) sendReviews(ctx context.Context, clients []*http.Client, body []byte, n int) error {
	var sent atomic.Int64
	errs := make([]error, len(clients))
	var group sync.WaitGroup
	for i, c := range clients {
		group.Go(func() {
			for sent.Add(1) <= int64(n) && errs[i] == nil {
				_, errs[i] = e.review(ctx, c, body)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// webhookClients returns clients with a connection each.
func (e *environment) webhookClients() ([]*http.Client, error) {
	certificate, err := os.ReadFile(filepath.Join(e.dir, "tls.crt"))
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(certificate)
	clients := make([]*http.Client, webhookClients)
	for i := range clients {
		clients[i] = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS13,
			RootCAs: trusted}}}
	}
	return clients, nil
}

// review sends a review and returns the answer, and an error if the Pod is not allowed.
func (e *environment) review(ctx context.Context, c *http.Client, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.webhook, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK || !bytes.Contains(text, []byte(`"allowed":true`)) {
		return nil, fmt.Errorf("POST %s: %s: %s", e.webhook, response.Status, text)
	}
	return text, nil
}

// reviewOfPod returns the review of a Pod of a Deployment, as the API server sends it. The API server
// calls no webhook yet.
func (e *environment) reviewOfPod(ctx context.Context) ([]byte, error) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: e.namespace, Name: "web-5d8f9c7b6-x2x4z",
			Labels:      map[string]string{"app": "web", "pod-template-hash": "5d8f9c7b6"},
			Annotations: map[string]string{"watch.fescue.dev/inject": "log"},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "web", Image: "nginx:1.29",
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
			Env:   []corev1.EnvVar{{Name: "LEVEL", Value: "info"}},
		}}},
	}
	if err := e.client.Create(ctx, pod, client.DryRunAll); err != nil { // which adds the defaults
		return nil, err
	}
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	raw, err := json.Marshal(pod)
	if err != nil {
		return nil, err
	}
	return json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "6b4a7bd4-1f0c-4d0c-8b0e-2f1d9c7f4b11", Operation: admissionv1.Create, Namespace: e.namespace,
			Name:     pod.Name,
			Kind:     metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
			Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			Object:   runtime.RawExtension{Raw: raw},
		},
	})
}
