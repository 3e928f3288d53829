internal import CallCore
internal import CallWire

/// Sinch's dialect: an opaque text under `SIN` or `sin`. Callmesh's is `cm1.<call>.<sent>.<deadline>.<a or
/// v>`. Only Sinch's client can read that of Sinch's servers, so Callmesh's members must accompany it.
enum SinchReader {
  static func read(
    _ payload: PayloadValue, _ note: CallmeshNote?
  ) throws(PushReadError) -> PushNews {
    guard let value = payload["SIN"] ?? payload["sin"] else { throw .foreign }
    guard let text = value.text, !text.isEmpty, text.utf8.count <= 100 else {
      throw .invalid("SIN")
    }
    guard text.hasPrefix("cm1.") else {
      guard let note else { throw .foreign }
      return .invite(PushInvite(call: note.call, handle: note.caller.user, note: note))
    }
    let own = try Own(text)
    let call = try Member.call(own.call, note, "SIN")
    var invite = PushInvite(
      call: call, handle: note?.caller.user ?? name(payload), video: own.video, note: note)
    invite.sentAt = own.sentAt
    invite.deadline = own.deadline
    return .invite(invite)
  }

  /// The caller's display name from the alert; empty: it has none.
  private static func name(_ payload: PayloadValue) -> String {
    guard case .list(let arguments)? = payload["aps"]?["alert"]?["loc-args"] else { return "" }
    return arguments.first?.text ?? ""
  }

  private struct Own {
    var call: CallID
    var sentAt: Timestamp
    var deadline: Timestamp
    var video: Bool

    init(_ text: String) throws(PushReadError) {
      let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
      guard parts.count == 5, let call = CallID(hex: Array(parts[1])[...]),
        let sentAt = Self.time(parts[2]), let deadline = Self.time(parts[3]),
        parts[4].elementsEqual("a".utf8) || parts[4].elementsEqual("v".utf8)
      else { throw .invalid("SIN") }
      self.call = call
      self.sentAt = sentAt
      self.deadline = deadline
      video = parts[4].elementsEqual("v".utf8)
    }

    /// Milliseconds in hex; eleven digits last until the year 2527.
    private static func time(_ digits: Substring.UTF8View) -> Timestamp? {
      guard (1...11).contains(digits.count), digits.first != UInt8(ascii: "+"),
        digits.first != UInt8(ascii: "-"),
        let milliseconds = Int64(String(decoding: digits, as: UTF8.self), radix: 16)
      else { return nil }
      return Timestamp(microseconds: milliseconds * 1000)
    }
  }
}
