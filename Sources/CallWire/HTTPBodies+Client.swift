public import CallCore

/// Bodies as clients write and read them.
extension HTTPBodies {
  /// The body of `POST /v1/devices`.
  public static func encode(_ body: Register) -> [UInt8] {
    JSONWriter.object { json in
      json.optional("device", body.device?.text ?? "")
      JSONForm.fields(body.request, into: &json)
    }
  }

  /// The body of a decline.
  public static func encode(_ body: Decline) -> [UInt8] {
    JSONWriter.object { json in
      json.optional("device", body.device?.text ?? "")
      json.member("scope", body.scope.name)
      json.optional("capability", body.capability)
    }
  }

  /// The body of a busy.
  public static func encode(_ body: Busy) -> [UInt8] {
    JSONWriter.object { json in
      json.optional("device", body.device?.text ?? "")
      json.optional("capability", body.capability)
    }
  }

  /// Reads an edge's answer about a call. nil for what is none.
  public static func readCallState(_ bytes: [UInt8]) -> CallState? {
    answer(bytes) { (json) throws(Fault) in try JSONParse.state(&json, "") }
  }

  /// Reads an edge's answer to a registration. nil for what is none.
  public static func readRegistered(_ bytes: [UInt8]) -> RegisteredInfo? {
    let info = answer(bytes) { (json) throws(Fault) in try JSONParse.registered(&json, "") }
    guard let info, !info.device.text.isEmpty else { return nil }
    return info
  }

  /// Reads an error of an edge. nil for what is none, as an answer of something between.
  public static func readError(_ bytes: [UInt8]) -> CallError? {
    let error = answer(bytes) { (json) throws(Fault) -> CallError? in
      var error: CallError?
      try json.object("") { (json, key) throws(Fault) in
        if "error" ~= key { error = try JSONParse.error(&json) } else { try json.skip() }
      }
      return error
    }
    return error ?? nil
  }

  private static func answer<Value>(
    _ bytes: [UInt8], _ read: (inout JSONCursor) throws(Fault) -> Value
  ) -> Value? {
    bytes.withUnsafeBytes { bytes in
      do throws(Fault) {
        return try JSONParse.whole(bytes, read)
      } catch {
        return nil
      }
    }
  }
}
