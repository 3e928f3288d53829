internal import CallCore
internal import Synchronization

/// Services that asked for a pause (503 with `Retry-After`), and until when.
///
/// Policy when there are too many: the pause that ends first is forgotten.
final class ServiceBackoff: Sendable {
  static let servicesMax = 1024
  private let ends = Mutex<[String: Timestamp]>([:])

  func note(_ service: String, until end: Timestamp) {
    ends.withLock { ends in
      ends[service] = max(end, ends[service] ?? end)
      guard ends.count > Self.servicesMax, let first = ends.min(by: { $0.value < $1.value })
      else { return }
      ends[first.key] = nil
    }
  }

  /// nil when it asked for none, or the pause is over.
  func end(of service: String, now: Timestamp) -> Timestamp? {
    ends.withLock { ends in
      guard let end = ends[service] else { return nil }
      if end > now { return end }
      ends[service] = nil
      return nil
    }
  }
}
