// Does what the first word of its input says.
const [word, ...numbers] = require("fs").readFileSync(0, "utf8").split(/\s+/);
switch (word) {
  case "sum":
    console.log(Number(numbers[0]) + Number(numbers[1]));
    break;
  case "exit":
    process.exit(Number(numbers[0]));
  case "signal":
    process.abort();
  case "spin":
    for (;;) {}
  case "sleep":
    setTimeout(() => {}, 60_000);
    break;
  case "memory":
    for (const held = []; ; ) held.push(new Array(1024).fill(held.length));
  case "flood":
    for (;;) require("fs").writeSync(1, "flood".repeat(1000));
}
