public import CallCore
public import CallWire

/// Decodes push payloads of one dialect. It accepts any input and never traps.
///
/// ```swift
/// let reader = PushReader(.callmesh)
/// switch try reader.read(PayloadValue(payload.dictionaryPayload)) {
/// case .invite(let invite): …   // report the call, attach for invite.call
/// case .stop(let stop): …       // report the end with stop.callKitReason
/// case .missed(let notice): …
/// }
/// ```
/// Each dialect is read with Callmesh's own members under the key `callmesh`, and without them, as the
/// vendor's own server sends it. Without them there may be no deadline, capability and callee.
public struct PushReader: Sendable {
  public var dialect: PushDialect
  /// Major version of the vendor's SDK that the app was built with; nil: the newest known. Only version 3
  /// of Telnyx's differs from its successor.
  public var sdkMajorVersion: Int?

  public init(_ dialect: PushDialect, sdkMajorVersion: Int? = nil) {
    self.dialect = dialect
    self.sdkMajorVersion = sdkMajorVersion
  }

  /// Decodes a payload.
  /// - Parameter bytes: the payload as JSON; with FCM, the `data` map.
  /// - Throws: `PushReadError`.
  public func read(_ bytes: [UInt8]) throws(PushReadError) -> PushNews {
    try read(PayloadValue(json: bytes))
  }

  /// Decodes a payload.
  /// - Parameter payload: the payload; nil, the result of a failed `PayloadValue.init`, is not a payload.
  /// - Throws: `PushReadError`.
  public func read(_ payload: PayloadValue?) throws(PushReadError) -> PushNews {
    guard let payload, case .object = payload else { throw .notAPayload }
    let note = try CallmeshNote(in: payload)
    // Alert pushes and browser pushes are the same in every dialect.
    if let note, note.isAlert || dialect == .callmesh { return note.news }
    let news = try readForeign(payload, note)
    // Both parts of the payload must have the same purpose.
    if let note {
      let isInvite = if case .invite = news { true } else { false }
      guard isInvite == (note.purpose == .ring) else { throw .invalid("callmesh.purpose") }
    }
    return news
  }

  private func readForeign(
    _ payload: PayloadValue, _ note: CallmeshNote?
  ) throws(PushReadError) -> PushNews {
    switch dialect {
    case .callmesh: throw .foreign
    case .apple: try AppleReader.read(payload, note)
    case .fcsdk: try FCSDKReader.read(payload, note)
    case .telnyx: try TelnyxReader.read(payload, note, sdkMajorVersion: sdkMajorVersion)
    case .twilio: try TwilioReader.read(payload, note)
    case .sinch: try SinchReader.read(payload, note)
    }
  }
}

/// Helpers of the dialects' readers.
enum Member {
  static func text(
    _ name: String, in payload: PayloadValue, as path: String? = nil
  ) throws(PushReadError) -> String {
    guard let value = payload[name] else { throw .missing(path ?? name) }
    guard let text = value.text else { throw .invalid(path ?? name) }
    return text
  }

  static func optionalText(
    _ name: String, in payload: PayloadValue
  ) throws(PushReadError) -> String? {
    guard let value = payload[name] else { return nil }
    guard let text = value.text else { throw .invalid(name) }
    return text
  }

  /// The call's id: the dialect's own, which must equal Callmesh's if both are there.
  static func call(
    _ own: CallID?, _ note: CallmeshNote?, _ path: String
  ) throws(PushReadError) -> CallID {
    guard let own = own ?? note?.call else { throw .invalid(path) }
    if let note, note.call != own { throw .invalid(path) }
    return own
  }
}

extension PushInvite {
  /// An invite of a dialect's own members, completed by Callmesh's.
  init(call: CallID, handle: String, video: Bool? = nil, note: CallmeshNote?) {
    self.init(
      call: call, callee: note?.callee, handle: handle, caller: note?.caller,
      video: video ?? note?.video ?? false, headers: note?.headers ?? [],
      pushData: note?.pushData ?? "", placedAt: note?.placedAt, sentAt: note?.sentAt,
      deadline: note?.deadline, capability: note?.capability)
  }
}

extension PushStop {
  init(call: CallID, _ purpose: PushPurpose, note: CallmeshNote?, orElse callKitReason: Int) {
    self.init(
      call: call, purpose: purpose, callee: note?.callee, reason: note?.reason, by: note?.by,
      callKitReason: note?.reason?.callKitReason ?? callKitReason, sentAt: note?.sentAt,
      unread: note?.unread)
  }
}
