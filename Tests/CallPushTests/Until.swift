import CallBus

/// Waits for a fact that comes about by itself. The pause between two looks is no assumption about
/// time: it leaves the processors to those who are waited for. The suite's time limit ends the wait.
func until(_ holds: () async -> Bool) async {
  let pause = Inbox<Never>(capacity: 1)
  while await !holds() { _ = await pause.next(until: .now + .milliseconds(1)) }
}
