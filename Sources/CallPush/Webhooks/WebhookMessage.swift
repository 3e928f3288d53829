package import CallAuth
package import CallCore
internal import CallTelemetry
internal import CallWire

/// The message about an event that a webhook gets, as Standard Webhooks describe it.
package struct WebhookMessage: Sendable {
  /// The same for each attempt and each repetition of the event.
  package let id: String
  package let body: [UInt8]

  package init(_ event: AppEvent) {
    let id = Self.id(of: event)
    self.id = id
    body = JSONWriter.object { json in
      json.member("type", event.kind.type)
      json.member("id", id)
      json.member("timestamp", Self.text(event.at))
      json.member("app", event.callee.app)
      json.object("data") {
        if let gone = event.gone {
          Self.write(gone, of: event.callee.user, to: &$0)
        } else {
          Self.write(event, to: &$0)
        }
      }
    }
  }

  /// The same for the same event, also if another node stored it.
  private static func id(of event: AppEvent) -> String {
    if let gone = event.gone {
      let what = gone.fingerprint.isEmpty ? event.goneName : gone.fingerprint
      return "device_\(what)_\(gone.registeredAt.milliseconds)_\(event.kind.name)"
    }
    return "call_\(event.call)_\(event.placedAt.milliseconds)_\(event.kind.name)"
  }

  private static func write(
    _ gone: GoneRegistration, of user: String, to json: inout JSONWriter
  ) {
    json.member("user", user)
    json.member("device", gone.device.text)
    json.optional("deviceName", gone.deviceName)
    json.member("cause", gone.cause.name)
    if gone.provider != .none {
      json.member("provider", gone.provider.name)
      json.member("token", gone.isVoIP ? "voip" : "alert")
    }
    json.member("registeredAt", text(gone.registeredAt))
  }

  private static func write(_ event: AppEvent, to json: inout JSONWriter) {
    json.member("call", "\(event.call)")
    json.object("caller") { write(event.caller, to: &$0) }
    json.object("callee") { $0.member("user", event.callee.user) }
    json.member("video", event.video)
    json.member("placedAt", text(event.placedAt))
    if let by = event.by { json.object("by") { write(by, to: &$0) } }
    guard let reason = event.reason else { return }
    if let answeredAt = event.answeredAt { json.member("answeredAt", text(answeredAt)) }
    json.member("endedAt", text(event.at))
    json.member("reason", reason.name)
    json.member("missed", event.missed)
    if let survivor = event.survivor { json.member("survivor", "\(survivor)") }
    guard !event.diversions.isEmpty else { return }
    json.array("diversions", event.diversions) { json, diversion in
      json.element { write(diversion, to: &$0) }
    }
  }

  private static func write(_ diversion: CallRecord.Diversion, to json: inout JSONWriter) {
    json.member("from", diversion.from)
    json.array("to", diversion.to) { $0.element($1) }
    json.member("reason", diversion.reason.name)
    json.member("at", text(diversion.at))
    if let by = diversion.by { json.object("by") { write(by, to: &$0) } }
    if let takenBy = diversion.takenBy { json.object("takenBy") { write(takenBy, to: &$0) } }
    if let failed = diversion.failed { json.member("failed", failed.name) }
  }

  private static func write(_ party: Party, to json: inout JSONWriter) {
    json.member("user", party.user)
    json.member("device", party.device.text)
    json.optional("deviceName", party.deviceName)
    json.optional("name", party.name)
  }

  private static func text(_ time: Timestamp) -> String {
    CalendarTime.text(milliseconds: time.microseconds / 1000)
  }

  /// The headers of an attempt, with its signature.
  package func headers(_ settings: WebhookSettings, now: Timestamp) -> [(String, String)] {
    let seconds = now.microseconds / 1_000_000
    return [
      ("content-type", "application/json"), ("user-agent", "callmesh"), ("webhook-id", id),
      ("webhook-timestamp", "\(seconds)"),
      ("webhook-signature", settings.endpoint.signature(id: id, seconds: seconds, body: body)),
    ]
  }
}
