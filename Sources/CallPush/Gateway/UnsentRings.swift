internal import CallCore
internal import DequeModule

/// Rings that were dropped and that nobody can have sent: their devices ring for no push, so none need
/// tell them that it is over. Remembered for a while; at most so many, the oldest go first.
struct UnsentRings: Sendable {
  /// A device in a call.
  struct Leg: Sendable, Hashable {
    var call: CallID
    var device: DeviceID
    init(_ job: PushJob) { (call, device) = (job.call, job.device) }
  }

  private let capacity: Int
  private let kept: Span
  private var legs: Set<Leg> = []
  private var ages: Deque<(leg: Leg, until: Timestamp)> = []

  init(capacity: Int, kept: Span) {
    self.capacity = capacity
    self.kept = kept
  }

  func contains(_ leg: Leg) -> Bool { legs.contains(leg) }

  mutating func insert(_ leg: Leg, now: Timestamp) {
    while let first = ages.first, first.until <= now || legs.count >= capacity {
      ages.removeFirst()
      legs.remove(first.leg)
    }
    guard legs.insert(leg).inserted else { return }
    ages.append((leg, now + kept))
  }
}
