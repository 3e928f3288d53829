public import CallCore

/// One push, encoded for its provider and ready to leave.
public struct PushMessage: Sendable {
  /// The same for every attempt, so that ours and the provider's logs can be compared, and a device
  /// knows a second copy. APNs: `apns-id`, a lower-case UUID.
  public var id: String
  public var token: PushToken
  public var purpose: PushPurpose
  /// The body: JSON for APNs and Web Push; for FCM the JSON object of the message's `data`.
  public var payload: [UInt8]
  public var kind: Kind
  /// After this nobody wants it: no attempt begins later, and the provider is told so.
  public var deadline: Timestamp
  /// Replaces an earlier one on the device that is still on its way; empty: none.
  public var collapseKey: String
  /// nil: wanted until the deadline.
  public var cancellation: PushCancellation?
  public var isCancelled: Bool { cancellation?.isCancelled ?? false }

  /// What the platform does with it.
  public enum Kind: UInt8, Sendable, CaseIterable {
    /// PushKit: wakes the app, which must report a call.
    case voip
    /// Shown to the user by the system.
    case alert
    /// Handed to the app without being shown.
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

extension PushMessage: Equatable {
  /// What it says, and to whom; not whether it is still wanted.
  public static func == (one: PushMessage, other: PushMessage) -> Bool {
    one.id == other.id && one.token == other.token && one.purpose == other.purpose
      && one.payload == other.payload && one.kind == other.kind && one.deadline == other.deadline
      && one.collapseKey == other.collapseKey
  }
}

/// A way to one provider.
public protocol PushSender: Sendable {
  /// Sends one push, with what retries the provider's contract allows before the message's deadline,
  /// and while it is wanted.
  /// Returns when the fate is known, or at the deadline; never throws.
  func send(_ message: PushMessage) async -> PushOutcome

  /// Lets what is under way finish for a moment, then closes all connections.
  func close() async
}
