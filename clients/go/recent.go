package relay

import "container/list"

// recent is a map that forgets its oldest entries beyond a limit.
type recent[K comparable, V any] struct {
	limit   int
	order   list.List // of entries, the oldest first
	entries map[K]*list.Element
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

func newRecent[K comparable, V any](limit int) *recent[K, V] {
	return &recent[K, V]{limit: limit, entries: map[K]*list.Element{}}
}

func (r *recent[K, V]) get(key K) (value V, ok bool) {
	if at, ok := r.entries[key]; ok {
		return at.Value.(entry[K, V]).value, true
	}
	return value, false
}

func (r *recent[K, V]) has(key K) bool { return r.entries[key] != nil }

// put makes an entry the newest one.
func (r *recent[K, V]) put(key K, value V) {
	r.remove(key)
	r.entries[key] = r.order.PushBack(entry[K, V]{key, value})
	if r.order.Len() > r.limit {
		r.remove(r.order.Front().Value.(entry[K, V]).key)
	}
}

func (r *recent[K, V]) remove(key K) {
	if at, ok := r.entries[key]; ok {
		r.order.Remove(at)
		delete(r.entries, key)
	}
}

// newestFirst returns the entries.
func (r *recent[K, V]) newestFirst() []entry[K, V] {
	all := make([]entry[K, V], 0, r.order.Len())
	for at := r.order.Back(); at != nil; at = at.Prev() {
		all = append(all, at.Value.(entry[K, V]))
	}
	return all
}
