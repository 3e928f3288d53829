public import CallCore
internal import Synchronization

/// One push, encoded for its provider and ready to leave.
public struct PushMessage: Sendable {
  /// The same for every attempt, so that our logs can be compared with the provider's, and a device detects a second
  /// copy. APNs: `apns-id`, a lower-case UUID.
  public var id: String
  public var token: PushToken
  public var purpose: PushPurpose
  /// The body: JSON for APNs and Web Push; for FCM the JSON object of the message's `data`.
  public var payload: [UInt8]
  /// For FCM: the JSON object with the `aps` for an iPhone; empty: the message is for no iPhone.
  public var apple: [UInt8] = []
  public var kind: Kind
  /// No attempt begins after this; it is also the expiry that the provider receives.
  public var deadline: Timestamp
  /// A later push with the same key replaces an undelivered earlier one; empty: none.
  public var collapseKey: String
  /// The knowledge about the token.
  public var trust = TokenTrust.unproven
  /// Called when a pause between two attempts begins, with its end, and with nil when it is over.
  package var onPause: (@Sendable (_ until: Timestamp?) -> Void)?
  /// nil: it cannot be cancelled.
  public var cancellation: PushCancellation?
  public var isCancelled: Bool { cancellation?.isCancelled ?? false }
  /// Whether it changes what rings: all but notices. Such a push is tried until its deadline, whatever the provider
  /// answers about other things than its token or itself, and a device ignores a second copy by the call's id. A notice
  /// is tried a few times, since the user would see a second copy.
  var isUrgent: Bool { purpose != .missedNotice }

  /// How the platform handles it.
  public enum Kind: UInt8, Sendable, CaseIterable {
    /// PushKit: wakes the app, which must report a call.
    case voip
    /// Shown to the user by the system.
    case alert
    /// Delivered to the app without being shown.
    case background
  }

  public init(
    id: String, token: PushToken, purpose: PushPurpose, payload: [UInt8], kind: Kind,
    deadline: Timestamp, collapseKey: String = ""
  ) {
    self.id = id
    self.token = token
    self.purpose = purpose
    self.payload = payload
    self.kind = kind
    self.deadline = deadline
    self.collapseKey = collapseKey
  }
}

extension PushMessage {
  /// Four weeks: the most that FCM accepts, and more than any push service keeps.
  private static let secondsToLiveMax: Int64 = 2_419_200

  /// The whole seconds from `now` to the deadline, for the provider.
  func secondsToLive(at now: Timestamp) -> Int64 {
    min(max(0, (deadline - now).microseconds / 1_000_000), Self.secondsToLiveMax)
  }
}

/// Sends pushes to one provider.
public protocol PushSender: Sendable {
  /// Sends one push. Retries as the provider's contract allows, until the deadline or the cancellation. Returns when
  /// the outcome is known, or at the deadline; never throws.
  func send(_ message: PushMessage) async -> PushOutcome

  /// Lets pushes under way finish for a grace period, then closes all connections.
  func close() async
}

/// Cancels a push whose call has ended, while it waits for a place, for a connection, or for the next attempt. Senders
/// check it before each attempt, and let it end a pause.
public final class PushCancellation: Sendable {
  private let state = Mutex((isCancelled: false, handler: (@Sendable () -> Void)?.none))
  public init() {}
  public var isCancelled: Bool { state.withLock { $0.isCancelled } }

  /// An attempt that is under way continues; no further one begins.
  public func cancel() {
    let handler = state.withLock { state in
      state.isCancelled = true
      return state.handler.take()
    }
    handler?()
  }

  /// Calls `handler` once it is cancelled, at once if it is already, in place of the handler before. nil: nothing is called.
  func onCancel(_ handler: (@Sendable () -> Void)?) {
    let isCancelled = state.withLock { state in
      state.handler = state.isCancelled ? nil : handler
      return state.isCancelled
    }
    if isCancelled { handler?() }
  }
}
