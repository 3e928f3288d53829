// swift-tools-version: 6.2
import PackageDescription

/// `make check` and continuous integration set this; who builds with a newer compiler need not care
/// for what that warns of.
let warnings: [SwiftSetting] =
  Context.environment["CALLMESH_WARNINGS"] == "errors" ? [.treatAllWarnings(as: .error)] : []

/// `make fuzz` sets this: libFuzzer learns what of our code an input runs, and the address sanitizer
/// sees what it touches; and there is the program that is driven by libFuzzer.
let isFuzzing = Context.environment["CALLMESH_FUZZ"] == "1"
let instruments: [SwiftSetting] =
  isFuzzing ? [.unsafeFlags(["-sanitize=fuzzer,address"])] : []

/// A fifth fewer instructions for a call (`make bench-call`). No access to a variable is checked at run time
/// for another that overlaps it; debug builds, and so `make sanitize`, go on checking.
let speed: [SwiftSetting] = isFuzzing ? [] : [inRelease("-enforce-exclusivity=unchecked")]

/// For modules whose functions other modules run for each call: the compiler specialises and inlines them there.
/// For any other module this only makes the build longer (nearly twice as long for CallLoadKit).
let inlinedElsewhere: [SwiftSetting] = isFuzzing ? [] : [inRelease("-cross-module-optimization")]

func inRelease(_ flag: String) -> SwiftSetting {
  .unsafeFlags([flag], .when(configuration: .release))
}

/// Settings of every Swift target: complete concurrency checking, imports that do not leak,
/// `any` written out, and async functions that stay on their caller's actor.
let settings: [SwiftSetting] =
  [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
  ] + warnings + instruments + speed

func library(
  _ name: String, _ dependencies: [Target.Dependency] = [], _ more: [SwiftSetting] = [],
  exclude: [String] = []
) -> Target {
  .target(
    name: name, dependencies: dependencies, exclude: exclude,
    swiftSettings: settings + more)
}

/// For tests and for programs whose speed does not matter: a third of the time of their build.
let notOptimised: [SwiftSetting] = [inRelease("-Onone")]

func tests(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
  .testTarget(name: name, dependencies: dependencies, swiftSettings: settings + notOptimised)
}

extension Target.Dependency {
  static let nio: [Target.Dependency] = [
    .product(name: "NIOCore", package: "swift-nio"),
    .product(name: "NIOPosix", package: "swift-nio"),
    .product(name: "NIOHTTP1", package: "swift-nio"),
    .product(name: "NIOWebSocket", package: "swift-nio"),
  ]
  static let tls: Target.Dependency = .product(name: "NIOTLS", package: "swift-nio")
  static let embedded: Target.Dependency = .product(name: "NIOEmbedded", package: "swift-nio")
  static let log: Target.Dependency = .product(name: "Logging", package: "swift-log")
  static let lifecycle: Target.Dependency = .product(
    name: "ServiceLifecycle", package: "swift-service-lifecycle")
  static let unixSignals: Target.Dependency = .product(
    name: "UnixSignals", package: "swift-service-lifecycle")
  static let arguments: Target.Dependency = .product(
    name: "ArgumentParser", package: "swift-argument-parser")
  static let crypto: Target.Dependency = .product(name: "Crypto", package: "swift-crypto")
  static let cryptoExtras: Target.Dependency = .product(
    name: "CryptoExtras", package: "swift-crypto")
  static let histogram: Target.Dependency = .product(
    name: "Histogram", package: "hdrhistogram-swift")
  static let deque: Target.Dependency = .product(
    name: "DequeModule", package: "swift-collections")
  static let heap: Target.Dependency = .product(
    name: "HeapModule", package: "swift-collections")
  static let http2: [Target.Dependency] = [
    .product(name: "NIOHTTP2", package: "swift-nio-http2"),
    .product(name: "NIOHPACK", package: "swift-nio-http2"),
    .nioSSL,
  ]
  static let nioSSL: Target.Dependency = .product(name: "NIOSSL", package: "swift-nio-ssl")
  static let httpClient: Target.Dependency = .product(
    name: "AsyncHTTPClient", package: "async-http-client")
}

/// Swift's libraries within the program: it starts on a host without Swift, and what every call does
/// many times (`swift_retain`) is no call through a table of a shared library: 7 % of the servers' time.
/// They need each other, hence the group.
let staticLibraries: [LinkerSetting] = [
  .unsafeFlags(
    ["-static-stdlib", "-Xlinker", "--start-group"]
      + [
        "Foundation", "CoreFoundation", "_FoundationICU", "FoundationEssentials",
        "FoundationInternationalization", "_FoundationCShims", "_FoundationCollections",
        "swiftSynchronization",
      ].map { "-l\($0)" } + ["-Xlinker", "--end-group"],
    .when(platforms: [.linux]))
]

/// The entry point is libFuzzer's, which `deploy/dev/fuzz.sh` links.
let fuzzers: [Target] =
  isFuzzing
  ? [
    .executableTarget(
      name: "callfuzz", dependencies: ["CallFuzz"], path: "Tests/CallFuzzer",
      swiftSettings: settings,
      linkerSettings: [.unsafeFlags(["-sanitize=address", "-use-ld=lld"])])
  ] : []

let package = Package(
  name: "callmesh",
  platforms: [.macOS(.v26), .iOS(.v26)],
  products: [
    .executable(name: "callnode", targets: ["callnode"]),
    .executable(name: "callctl", targets: ["callctl"]),
    .executable(name: "callload", targets: ["callload"]),
    .executable(name: "callsim", targets: ["callsim"]),
    .executable(name: "apnssim", targets: ["apnssim"]),
    .executable(name: "webphone", targets: ["webphone"]),
    .executable(name: "callphone", targets: ["callphone"]),
    // For apps. The names of calls, states and errors are in CallCore, those of codecs in CallWire.
    .library(name: "CallClient", targets: ["CallClient", "CallMachine", "CallWire", "CallCore"]),
    // The same with calls as objects, by the names of the JavaScript client; without NIO, and its transport over NIO.
    .library(name: "CallmeshClient", targets: ["CallmeshClient"]),
    .library(name: "CallmeshNIO", targets: ["CallmeshNIO"]),
    .library(name: "CallmeshCallKit", targets: ["CallmeshCallKit"]),
  ],
  dependencies: [
    .package(url: "https://github.com/apple/swift-nio.git", from: "2.101.2"),
    .package(url: "https://github.com/apple/swift-log.git", from: "1.16.2"),
    .package(url: "https://github.com/swift-server/swift-service-lifecycle.git", from: "2.13.0"),
    .package(url: "https://github.com/apple/swift-argument-parser.git", from: "1.8.2"),
    .package(url: "https://github.com/apple/swift-crypto.git", from: "4.5.2"),
    .package(url: "https://github.com/HdrHistogram/hdrhistogram-swift.git", from: "0.2.0"),
    .package(url: "https://github.com/apple/swift-collections.git", from: "1.6.0"),
    .package(url: "https://github.com/apple/swift-nio-http2.git", from: "1.46.0"),
    .package(url: "https://github.com/apple/swift-nio-ssl.git", from: "2.37.6"),
    .package(url: "https://github.com/swift-server/async-http-client.git", from: "1.37.0"),
  ],
  targets: [
    .systemLibrary(name: "CNATS", pkgConfig: "libnats", providers: [.apt(["libnats-dev"])]),
    .systemLibrary(
      name: "CProtobufC", pkgConfig: "libprotobuf-c", providers: [.apt(["libprotobuf-c-dev"])]),
    .target(name: "CCallProto", dependencies: ["CProtobufC"]),

    library("CallCore", [], inlinedElsewhere),
    library("CallTelemetry", [.log], inlinedElsewhere),
    library("CallAuth", ["CallCore", "CallTelemetry", .crypto], inlinedElsewhere),
    library(
      "CallWire", ["CallCore", "CCallProto", "CProtobufC"],
      inlinedElsewhere + [.strictMemorySafety()]),
    library("CallBus", ["CallCore", "CallWire", "CallTelemetry", .deque, .log], inlinedElsewhere),
    // Imports C: every unsafe operation is marked `unsafe`.
    library(
      "NATSBus", ["CallBus", "CallCore", "CallWire", "CallTelemetry", "CNATS"],
      [.strictMemorySafety()]),
    library(
      "CallCoordinator",
      ["CallCore", "CallWire", "CallBus", "CallTelemetry", "CallAuth", .log, .lifecycle]),
    library(
      "CallEdge",
      [
        "CallCore", "CallWire", "CallBus", "CallTelemetry", .log, .lifecycle, "CallAuth", .deque,
        .tls, .httpClient,
      ] + Target.Dependency.nio + Target.Dependency.http2, exclude: ["HTTP/openapi.json"]),
    library("CallMachine", ["CallCore", "CallWire"], inlinedElsewhere),
    library(
      "CallClient",
      ["CallMachine", "CallCore", "CallWire", .crypto, .log, .nioSSL, .tls]
        + Target.Dependency.nio),
    library("CallmeshClient", ["CallMachine", "CallCore", "CallWire"]),
    library(
      "CallmeshNIO",
      ["CallmeshClient", "CallClient", "CallCore", "CallWire"] + Target.Dependency.nio),
    library("CallmeshCallKit", ["CallmeshClient", "CallMachine", "CallWire", "CallCore"]),
    library("CallJudge", ["CallCore", "CallMachine", "CallWire"], inlinedElsewhere),
    library(
      "CallPush",
      [
        "CallCore", "CallWire", "CallBus", "CallTelemetry", "CallAuth", .log, .lifecycle,
        .crypto, .cryptoExtras, .deque, .httpClient, .tls,
      ] + Target.Dependency.nio + Target.Dependency.http2),
    // Processes that are started, watched and ended: of tests, of local clusters and of benchmarks.
    library(
      "CallProcesses",
      [
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOPosix", package: "swift-nio"),
      ]),
    library(
      "CallTestKit",
      [
        "CallCore", "CallWire", .crypto, .tls,
      ] + Target.Dependency.nio + Target.Dependency.http2),

    library(
      "CallSimulation",
      [
        "CallCore", "CallWire", "CallBus", "CallCoordinator", "CallEdge", "CallPush", "CallClient",
        "CallJudge", "CallTelemetry", "CallAuth", .heap, .log,
      ] + Target.Dependency.nio),

    library(
      "CallNodeKit",
      [
        "CallCoordinator", "CallEdge", "CallPush", "NATSBus", "CallBus", "CallWire", "CallCore",
        "CallTelemetry", "CallAuth", .arguments, .lifecycle, .unixSignals, .log,
      ] + Target.Dependency.nio),
    .executableTarget(
      name: "callnode", dependencies: ["CallNodeKit"], swiftSettings: settings,
      linkerSettings: staticLibraries),
    .executableTarget(
      name: "callctl",
      dependencies: [
        "NATSBus", "CallBus", "CallWire", "CallCore", "CallTelemetry", "CallAuth", .arguments, .log,
      ], swiftSettings: settings + notOptimised),
    library(
      "CallHostile", ["CallClient", "CallWire", "CallCore", "CallAuth"] + Target.Dependency.nio),
    library(
      "CallLoadKit",
      [
        "CallClient", "CallWire", "CallCore", "CallAuth", "CallBus", "CallTelemetry", "CallHostile",
        "CallJudge", "CallProcesses", "CallTestKit",
        .arguments, .histogram, .log, .lifecycle, .unixSignals,
      ] + Target.Dependency.nio),
    .executableTarget(
      name: "callload", dependencies: ["CallLoadKit", "CallBus", "NATSBus"],
      swiftSettings: settings,
      linkerSettings: staticLibraries),

    .executableTarget(
      name: "callsim",
      dependencies: [
        "CallSimulation", "CallProcesses", "CallJudge", "CallWire", "CallCore", .arguments,
      ],
      swiftSettings: settings + notOptimised, linkerSettings: staticLibraries),

    .executableTarget(
      name: "apnssim",
      dependencies: [
        "CallTestKit", "CallCore", .arguments, .unixSignals,
        .product(name: "NIOCore", package: "swift-nio"),
      ],
      swiftSettings: settings + notOptimised),

    library(
      "CallPhoneKit", ["CallmeshClient", "CallmeshNIO", "CallClient", .arguments]),
    .executableTarget(
      name: "callphone", dependencies: ["CallPhoneKit"], swiftSettings: settings + notOptimised,
      linkerSettings: staticLibraries),

    library(
      "WebPhoneKit",
      [
        "CallLoadKit", "CallAuth", "CallProcesses", "CallTelemetry", .arguments, .unixSignals,
        .nioSSL,
      ] + Target.Dependency.nio),
    .executableTarget(
      name: "webphone", dependencies: ["WebPhoneKit"], swiftSettings: settings + notOptimised),

    .executableTarget(
      name: "Benchmarks",
      dependencies: [
        "CallCore", "CallWire", "CallBus", "NATSBus", "CallCoordinator", "CallPush",
        "CallTelemetry", "CallAuth", "CallProcesses", "CallTestKit", .log, .crypto,
      ] + Target.Dependency.nio, path: "loadtest/Benchmarks", swiftSettings: settings),

    .target(name: "CountingMalloc", path: "loadtest/CountingMalloc"),
    .executableTarget(
      name: "callbench",
      dependencies: [
        "CountingMalloc",
        "CallSimulation", "CallJudge", "CallCoordinator", "CallClient", "CallWire", "CallCore",
        "CallTelemetry", .arguments, .log,
      ], path: "loadtest/CallBench", swiftSettings: settings, linkerSettings: staticLibraries),

    .target(
      name: "CallFuzz",
      dependencies: [
        "CallCore", "CallWire", "CallBus", "CallTelemetry", "CallAuth", "CallEdge", "CallClient",
        "CallPush", "CallNodeKit", "NATSBus", .crypto, .log, .embedded,
        .product(name: "NIOCore", package: "swift-nio"),
      ], path: "Tests/CallFuzz", swiftSettings: settings),
    .target(
      name: "PushSimulators",
      dependencies: ["CallTestKit", "CallWire", .crypto, .cryptoExtras] + Target.Dependency.nio
        + Target.Dependency.http2, path: "Tests/PushSimulators",
      swiftSettings: settings + notOptimised),
    // Lets the conformance suite (docs/conformance.md) drive the Swift client.
    .executableTarget(
      name: "conformanceadapter",
      dependencies: [
        "CallClient", "CallWire", "CallCore", .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOPosix", package: "swift-nio"),
      ], path: "Tests/ConformanceAdapter", swiftSettings: settings + notOptimised),
    .target(
      name: "TestSupport", dependencies: ["CallProcesses"], path: "Tests/TestSupport",
      swiftSettings: settings + notOptimised),
    tests("CallFuzzTests", ["CallFuzz", "CallCore"]),

    tests("CallCoreTests", ["CallCore", "TestSupport"]),
    tests("CallProcessesTests", ["CallProcesses"]),
    tests("CallWireTests", ["CallWire", "CallCore", "CCallProto", "CProtobufC"]),
    tests("CallAuthTests", ["CallAuth", "CallCore", .crypto]),
    tests("CallBusTests", ["CallBus", "CallCore", "CallTelemetry", .log]),
    tests(
      "NATSBusTests",
      ["NATSBus", "CallBus", "CallCore", "CallWire", "CallProcesses", "CallTestKit", "TestSupport"]),
    tests(
      "CallCoordinatorTests",
      [
        "CallCoordinator", "CallBus", "CallWire", "CallCore", "CallTelemetry", "CallAuth",
        "CallTestKit", .log,
      ]),
    tests(
      "CallEdgeTests",
      [
        "CallEdge", "CallAuth", "CallBus", "CallWire", "CallCore", "CallTelemetry", "CallTestKit",
        .log, .embedded, .nioSSL, .crypto,
      ] + Target.Dependency.nio),
    tests(
      "CallClientTests",
      ["CallClient", "CallWire", "CallCore", "CallTestKit", .embedded, .nioSSL]
        + Target.Dependency.nio),
    .target(
      name: "FakeEdges", dependencies: ["CallmeshClient", "CallWire", "CallCore"],
      path: "Tests/FakeEdges", swiftSettings: settings + notOptimised),
    tests(
      "CallmeshClientTests",
      ["CallmeshClient", "CallmeshNIO", "FakeEdges", "CallMachine", "CallWire", "CallCore"]
        + Target.Dependency.nio),
    tests("CallmeshCallKitTests", ["CallmeshCallKit", "CallmeshClient"]),
    tests(
      "CallPhoneTests",
      [
        "CallPhoneKit", "CallmeshClient", "FakeEdges", "CallWire", "CallCore", .arguments,
      ]),
    tests("CallHostileTests", ["CallHostile", "CallAuth"] + Target.Dependency.nio),
    tests(
      "CallLoadTests",
      [
        "CallLoadKit", "CallHostile", "CallBus", "CallClient", "CallJudge", "CallPush", "CallWire",
        "CallCore",
        "CallAuth", "CallProcesses", "CallTestKit", "TestSupport", .histogram, .arguments,
      ]),
    tests(
      "WebPhoneTests",
      ["WebPhoneKit", "CallLoadKit", "CallClient", "CallAuth", .arguments]
        + Target.Dependency.nio),
    tests(
      "CallSimulationTests",
      [
        "CallSimulation", "CallCoordinator", "CallEdge", "CallClient", "CallJudge",
        "CallBus", "CallWire", "CallCore", "CallTelemetry", "CallAuth", "CallProcesses",
        "TestSupport", .log, .embedded,
      ] + Target.Dependency.nio),
    tests(
      "CallPushTests",
      [
        "CallPush", "CallClient", "CallBus", "CallWire", "CallCore", "CallTelemetry", "CallAuth",
        "PushSimulators", "CallProcesses", "CallTestKit", .log, .crypto, .embedded, .httpClient,
      ] + Target.Dependency.nio + Target.Dependency.http2),
    tests(
      "CallTestKitTests",
      ["CallTestKit", "CallCore", "CallWire", .crypto] + Target.Dependency.nio
        + Target.Dependency.http2),
    tests("CallTelemetryTests", ["CallTelemetry", .log]),
    tests(
      "CallNodeTests",
      [
        "CallNodeKit", "CallEdge", "CallProcesses", "CallBus", "CallCore", "CallWire",
        "CallTelemetry", "CallAuth", "NATSBus", .lifecycle, .log,
      ]),
    tests("CallCtlTests", ["callctl", "CallBus", "CallWire", "CallCore", "CallTelemetry"]),
    tests(
      "IntegrationTests",
      [
        "CallClient", "CallAuth", "CallWire", "CallCore", "CallTelemetry", "PushSimulators",
        "CallProcesses", "CallTestKit", "TestSupport", "NATSBus", "CallBus", .log, .crypto,
      ]),
  ] + fuzzers
)
