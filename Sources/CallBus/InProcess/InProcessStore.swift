/// What the streams of a JetStream server would hold: per stream one sequence, per subject records.
struct InProcessStore {
  struct Entry {
    var sequence: UInt64
    /// nil: a deletion marker.
    var bytes: [UInt8]?
  }

  struct Stream {
    var lastSequence: UInt64 = 0
    var subjects: [String: [Entry]] = [:]

    func lastSequence(of subject: String) -> UInt64 { subjects[subject]?.last?.sequence ?? 0 }

    /// Appends if `expecting` is the subject's last sequence or nil. `keepOne` forgets older ones.
    mutating func append(_ subject: String, _ bytes: [UInt8]?, expecting: UInt64?, keepOne: Bool)
      -> AppendResult
    {
      if let expecting, expecting != lastSequence(of: subject) { return .refused }
      lastSequence += 1
      let entry = Entry(sequence: lastSequence, bytes: bytes)
      if keepOne {
        subjects[subject] = [entry]
      } else {
        subjects[subject, default: []].append(entry)
      }
      return .appended(sequence: lastSequence)
    }
  }

  struct Watch {
    var id: UInt64
    var bucket: String
    var filter: SubjectFilter
    var handler: @Sendable (KeyValueEntry) -> Void
  }

  var journal = Stream()
  var buckets: [String: Stream] = [:]
  var watches: [Watch] = []
  var lastWatch: UInt64 = 0
}
