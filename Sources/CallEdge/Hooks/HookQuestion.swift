package import CallAuth
package import CallCore
internal import CallTelemetry
internal import CallWire

/// The question to an app's hook about one call: a webhook as Standard Webhooks describe it.
package struct HookQuestion: Sendable {
  /// The same for each question about the call, which may be asked again (at another edge, say).
  package let id: String
  /// Since 1970.
  package let seconds: Int64
  package let body: [UInt8]

  package static let type = "call.placing"

  /// - Parameter command: a `place`.
  package init(_ command: Command, _ request: PlaceRequest, now: Timestamp) {
    id = "call_\(request.call)"
    seconds = now.microseconds / 1_000_000
    body = JSONWriter.object { json in
      json.member("type", Self.type)
      json.member("timestamp", CalendarTime.text(milliseconds: now.microseconds / 1000))
      json.object("data") { json in
        json.member("call", "\(request.call)")
        json.member("app", command.user.app)
        json.object("caller") { json in
          json.member("user", command.user.user)
          json.member("device", command.device.text)
          json.optional("deviceName", request.deviceName)
          json.optional("name", request.callerName)
        }
        json.object("callee") { $0.member("user", command.callee.user) }
        json.member("video", request.setup.video)
        json.array("headers", request.setup.headers) { json, header in
          json.element {
            $0.member("name", header.name)
            $0.member("value", header.value)
          }
        }
      }
    }
  }

  /// The headers of the request, with its signature.
  package func headers(_ settings: HookSettings) -> [(String, String)] {
    [
      ("content-type", "application/json"), ("user-agent", "callmesh"), ("webhook-id", id),
      ("webhook-timestamp", "\(seconds)"),
      ("webhook-signature", settings.signature(id: id, seconds: seconds, body: body)),
    ]
  }
}
