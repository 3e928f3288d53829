internal import Synchronization

/// Keys of the cluster on a node. Empty until the node has read them from the cluster; replaced when they change.
public final class Keyring<Keys: Sendable>: Sendable {
  private let keys: Mutex<Keys?>

  public init(_ keys: Keys? = nil) { self.keys = Mutex(keys) }

  /// nil before the first `replace`: nothing can be signed or verified yet.
  public var current: Keys? { keys.withLock { $0 } }

  public func replace(with keys: Keys?) { self.keys.withLock { $0 = keys } }
}

public typealias PushKeyring = Keyring<PushCapabilityKeys>
public typealias TicketKeyring = Keyring<SessionTicketKeys>

extension Keyring: CustomStringConvertible, CustomReflectable {
  public var description: String { "Keyring(\(current.map { "\($0)" } ?? "empty"))" }
  public var customMirror: Mirror { Mirror(self, children: ["current": description]) }
}
