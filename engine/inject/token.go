package inject

import "strings"

const (
	// tokenPath is where the API server's ServiceAccount admission mounts a token into
	// each container that mounts nothing there. tokenVolume is the prefix of the name of the
	// volume that it adds (plugin/pkg/admission/serviceaccount in Kubernetes).
	tokenPath   = "/var/run/secrets/kubernetes.io/serviceaccount"
	tokenVolume = "kube-api-access-"
)

// tokenMount returns the mount of the Pod's token that its containers already have when a webhook
// is called; nil if they have none. Injected containers get the same. Otherwise the API server
// would add it and then call all webhooks again, because the Pod has changed: that is most of the
// time that an injection adds to creating a Pod.
func tokenMount(pod value) []byte {
	for _, container := range pod.Member("spec").Member("containers").Items {
		for _, mount := range container.Member("volumeMounts").Items {
			if mount.Member("mountPath").Equals(tokenPath) &&
				strings.HasPrefix(mount.Member("name").String(), tokenVolume) {
				return mount.Raw()
			}
		}
	}
	return nil
}

// text returns an item of a list as it is added.
func (m *merger) text(item value, s *shape) []byte {
	if !s.containers || m.token == nil {
		return item.Raw()
	}
	return m.appendContainer(nil, item)
}

// wholeList returns a list whose items are all added.
func (m *merger) wholeList(list value, s *shape) []byte {
	if !s.containers || m.token == nil {
		return list.Raw()
	}
	text := make([]byte, 0, len(list.Raw())+len(m.token)+len(`,"volumeMounts":[]`))
	text = append(text, '[')
	for i, item := range list.Items {
		if i > 0 {
			text = append(text, ',')
		}
		text = m.appendContainer(text, item)
	}
	return append(text, ']')
}

// appendContainer appends a container with the mount of the token.
func (m *merger) appendContainer(to []byte, container value) []byte {
	mounts := container.Member("volumeMounts")
	hasOwn := mounts.Exists() && !mounts.Is('[') // null, or not a list
	for _, mount := range mounts.Items {
		hasOwn = hasOwn || mount.Member("mountPath").Equals(tokenPath)
	}
	text := container.Raw()
	if hasOwn || !container.Is('{') {
		return append(to, text...)
	}
	inside := container
	if mounts.Is('[') {
		inside = mounts
	}
	end := inside.End() - 1 - container.Start()
	to = append(to, text[:end]...)
	if !inside.IsEmpty() {
		to = append(to, ',')
	}
	if mounts.Is('[') {
		to = append(to, m.token...)
	} else {
		to = append(to, `"volumeMounts":[`...)
		to = append(to, m.token...)
		to = append(to, ']')
	}
	return append(to, text[end:]...)
}
