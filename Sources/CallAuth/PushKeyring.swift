internal import Synchronization

/// Where a node keeps the cluster's keys for push capabilities, which are read from the cluster
/// after it started, and may be replaced while it runs. Empty at first.
public final class PushKeyring: Sendable {
  private let keys: Mutex<PushCapabilityKeys?>

  public init(_ keys: PushCapabilityKeys? = nil) { self.keys = Mutex(keys) }

  /// nil until somebody put keys in: then nothing can be signed or verified yet.
  public var current: PushCapabilityKeys? { keys.withLock { $0 } }

  public func replace(with keys: PushCapabilityKeys?) { self.keys.withLock { $0 = keys } }
}

extension PushKeyring: CustomStringConvertible, CustomReflectable {
  public var description: String { "PushKeyring(\(current.map { "\($0)" } ?? "empty"))" }
  public var customMirror: Mirror { Mirror(self, children: ["current": description]) }
}
