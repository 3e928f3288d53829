package import CallClient
package import CallWire

package struct LoadOptions: Sendable {
  package var devices = 10_000
  package var devicesPerUser = 3
  /// Calls a second. Arrivals do not wait for anything: the load is open loop.
  package var rate: Double = 200
  package var durationSeconds: Double = 30
  /// Connections begun a second; nil: as fast as `connectsInFlight` allows.
  package var rampPerSecond: Double?
  package var connectsInFlight = 64
  /// `wss://host:port` or `ws://host:port`, with an optional path (default `/v1/connect`). Devices spread over them.
  package var edges: [String] = []
  package var trust = EdgeTrust.system
  package var scenario: Scenario = .default
  /// Candidates that each side of every call sends; 0: what the scenario says.
  package var signals = 0
  /// The share of users whose devices attach and do not register: the cluster knows only their sessions.
  package var unregistered = 0.0
  package var codec: DeviceCodec = .protobuf
  package var sleep: SleepOptions?
  /// Decides who calls whom, which part is played, and all delays.
  package var seed: UInt64 = 1
  /// How the app's name stands in tokens.
  package var app = "load"
  package var mintToken: @Sendable (_ user: String, _ device: String) throws -> String
  /// How long after the last arrival calls may take to end, beyond what their part plans.
  package var settleSeconds: Double = 15
  /// Of the cluster, where faults are injected into it; 0: unknown.
  package var shardCount = 0
  package var isDisturbed = false
  /// Keeps each call's ring latency beside the histogram, for percentiles of a part of the load.
  package var keepsRings = false
  /// The ramp is given up after this long; what is connected then is what takes part.
  package var rampTimeoutSeconds: Double = 180

  package init(
    edges: [String],
    mintToken: @escaping @Sendable (_ user: String, _ device: String) throws -> String
  ) {
    self.edges = edges
    self.mintToken = mintToken
  }
}
