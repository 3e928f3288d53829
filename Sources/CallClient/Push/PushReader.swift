public import CallCore
public import CallWire

/// Reads push payloads of one dialect: payload in, typed news out. Never traps, whatever comes.
///
/// ```swift
/// let reader = PushReader(.callmesh)
/// switch try reader.read(PayloadValue(payload.dictionaryPayload)) {
/// case .invite(let invite): …   // report the call, attach for invite.call
/// case .stop(let stop): …       // report the end with stop.callKitReason
/// case .missed(let notice): …
/// }
/// ```
/// Each dialect is read with what is ours beside it, under the key `callmesh`, and without: as the
/// vendor's own server sends it, where there may be no deadline, no capability and no callee.
public struct PushReader: Sendable {
  public var dialect: PushDialect
  /// Major version of the SDK that the app was made with; nil: the newest known. Only Telnyx's
  /// version 3 reads something else than its successor.
  public var sdkMajorVersion: Int?

  public init(_ dialect: PushDialect, sdkMajorVersion: Int? = nil) {
    self.dialect = dialect
    self.sdkMajorVersion = sdkMajorVersion
  }

  /// - Parameter bytes: the payload as JSON; of FCM the `data` map.
  public func read(_ bytes: [UInt8]) throws(PushReadError) -> PushNews {
    try read(PayloadValue(json: bytes))
  }

  /// - Parameter payload: nil stands for something that is no payload.
  public func read(_ payload: PayloadValue?) throws(PushReadError) -> PushNews {
    guard let payload, case .object = payload else { throw .notAPayload }
    let note = try CallmeshNote(in: payload)
    // Alert pushes are the same in every dialect, and so is what a browser gets.
    if let note, note.isAlert || dialect == .callmesh { return note.news }
    let news = try readForeign(payload, note)
    // Both halves must speak of the same thing.
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

/// What the readers of dialects share.
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

  /// The call's id: the dialect's own, which must not be another than ours.
  static func call(
    _ own: CallID?, _ note: CallmeshNote?, _ path: String
  ) throws(PushReadError) -> CallID {
    guard let own = own ?? note?.call else { throw .invalid(path) }
    if let note, note.call != own { throw .invalid(path) }
    return own
  }
}

extension PushInvite {
  /// An invite of a dialect's own members, and what ours adds.
  init(call: CallID, handle: String, video: Bool? = nil, note: CallmeshNote?) {
    self.init(
      call: call, callee: note?.callee, handle: handle, caller: note?.caller,
      video: video ?? note?.video ?? false, headers: note?.headers ?? [], placedAt: note?.placedAt,
      sentAt: note?.sentAt, deadline: note?.deadline, capability: note?.capability)
  }
}

extension PushStop {
  init(call: CallID, _ purpose: PushPurpose, note: CallmeshNote?, orElse callKitReason: Int) {
    self.init(
      call: call, purpose: purpose, callee: note?.callee, reason: note?.reason, by: note?.by,
      callKitReason: note?.reason?.callKitReason ?? callKitReason, sentAt: note?.sentAt)
  }
}
