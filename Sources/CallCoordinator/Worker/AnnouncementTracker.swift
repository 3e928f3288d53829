package import CallWire

/// How often one term's edges were asked for their sessions, and whose answer is still worth something: an edge
/// that stood still may answer a request of long ago.
package struct AnnouncementTracker: Sendable {
  package init() {}

  /// The number of the last request.
  private var asked: UInt64 = 0
  /// Of edges that were lost and have not announced their sessions since: the last request of before.
  private var askedBeforeLoss: [UInt64: UInt64] = [:]
  /// Living edges whose last announcement was not complete.
  private var askedForRest: Set<UInt64> = []
  /// Edges that never come back are forgotten beyond this, the oldest first.
  private static let lostEdgesMax = 64

  /// The number of the next request.
  package mutating func next() -> UInt64 {
    asked += 1
    return asked
  }

  /// An edge was lost, or comes back.
  package mutating func noteLoss(of edge: UInt64) {
    askedForRest.remove(edge)
    askedBeforeLoss[edge] = asked
    guard askedBeforeLoss.count > Self.lostEdgesMax,
      let oldest = askedBeforeLoss.min(by: { ($0.value, $0.key) < ($1.value, $1.key) })
    else { return }
    askedBeforeLoss[oldest.key] = nil
  }

  /// Whether an answer belongs to a request that was made since its edge was lost.
  package func isFresh(_ done: AnnounceDone) -> Bool {
    done.number == 0 || askedBeforeLoss[done.edge].map { $0 < done.number } ?? true
  }

  /// Some of what an edge announced is missing.
  /// - Returns: whether it is to be asked at once: the first time; later at intervals.
  package mutating func isIncomplete(_ edge: UInt64) -> Bool {
    askedForRest.insert(edge).inserted
  }

  package mutating func isComplete(_ edge: UInt64) {
    askedForRest.remove(edge)
    askedBeforeLoss[edge] = nil
  }
}
